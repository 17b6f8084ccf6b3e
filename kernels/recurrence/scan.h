// Diagonal recurrences over time, a channel each.
//
//   scan     h_t = a_t h_{t-1} + x_t
//   logscan  L_t = log(e^{L_{t-1} + d_t} + e^{k_t})            L_{-1} = -inf where no start is given
//            L_t = max(L_{t-1} + d_t, k_t)                     largest
//
// Adjoints (engine of Mamba-1, S4D, RWKV-4, stabilisers):
//   lambda_t = dh_t + conj(a_{t+1}) lambda_{t+1}
//   dx       = lambda
//   c_t      = conj(lambda_t) a_t h_{t-1}
//   dlog a_t = Re(c_t)
//   dangle_t = -Im(c_t)
//   dh_{-1}  = conj(a_0) lambda_0
// and of logscan
//   w_t  = sigmoid(L_{t-1} + d_t - k_t)                        largest: 0 or 1
//   mu_t = dL_t + w_{t+1} mu_{t+1}
//   dd_t = w_t mu_t
//   dk_t = (1 - w_t) mu_t
//
// a is given by its logarithm, so that a = 0 is log a = -inf or very negative, and no division by a occurs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

template <class Real>
struct Scan {
  bool complex = false;  ///< channels are pairs (real, imaginary) in x, h, start; a = e^{log_a + i angle}
  In<Real> log_a;        ///< log |a| [R,B,T,N]
  In<Real> angle;        ///< [R,B,T,N]: complex only
  In<Real> x;            ///< [R,B,T,N] or, complex, [R,B,T,2N]
  In<Real> start;        ///< h_{-1} [R,B,N] or [R,B,2N]; absent: 0
  Out<Real> h;           ///< like x

  static constexpr const char* kName = "scan";
  CROSSTALK_FIELDS(log_a, angle, x, start, h)
  void plan() {
    const std::int64_t parts = complex ? 2 : 1;
    if (!log_a || !x || log_a.value.rank != 3 || x.value.rank != 3 || static_cast<bool>(angle) != complex ||
        x.value.size() != parts * log_a.value.size() || (angle && angle.value.size() != log_a.value.size()) ||
        (start && start.value.size() * x.value.dim(1) != x.value.size()))
      throw std::logic_error("[scan] shapes do not fit");
    h.value = shaped<Real>(x.value.R, {x.value.dim(0), x.value.dim(1), x.value.dim(2)});
  }
};
CROSSTALK_OP(Scan)

template <class Real>
struct LogScan {
  bool largest = false;
  In<Real> d;      ///< [R,B,T,N]
  In<Real> k;      ///< [R,B,T,N]
  In<Real> start;  ///< L_{-1} [R,B,N]; absent: -inf
  Out<Real> l;     ///< [R,B,T,N]

  static constexpr const char* kName = "logscan";
  CROSSTALK_FIELDS(d, k, start, l)
  void plan() {
    if (!d || !k || d.value.rank != 3 || k.value.rank != 3 || d.value.size() != k.value.size() ||
        (start && start.value.size() * d.value.dim(1) != d.value.size()))
      throw std::logic_error("[logscan] shapes do not fit");
    l.value = shaped<Real>(d.value.R, {d.value.dim(0), d.value.dim(1), d.value.dim(2)});
  }
};
CROSSTALK_OP(LogScan)

}  // namespace crosstalk
