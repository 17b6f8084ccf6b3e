// One step of a scan, shared by the CPU and the CUDA version.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/functions.h"
#include "kernels/recurrence/scan.h"

namespace crosstalk {

/// A number that may be complex; i is 0 and costs little where it is real.
template <class Real>
struct Complex {
  Real re, im;
  CT_HD Complex operator+(Complex o) const { return {re + o.re, im + o.im}; }
  CT_HD Complex operator*(Complex o) const { return {re * o.re - im * o.im, re * o.im + im * o.re}; }
  CT_HD Complex conjugate() const { return {re, -im}; }
};

/// Channel n of sequence b: values by time.
template <class Real>
struct ScanChannel {
  const Scan<Real>& op;
  int r, N, T, parts;
  std::int64_t first, start;  ///< offsets of t = 0 in [B,T,N] and of the channel in [B,N]

  CT_HD ScanChannel(const Scan<Real>& op_, int r_, int b, int n)
      : op(op_),
        r(r_),
        N(op.log_a.value.dim(2)),
        T(op.log_a.value.dim(1)),
        parts(op.complex ? 2 : 1),
        first(static_cast<std::int64_t>(b) * T * N + n),
        start(static_cast<std::int64_t>(b) * N + n) {}
  CT_HD std::int64_t at(int t) const { return first + static_cast<std::int64_t>(t) * N; }
  CT_HD Complex<Real> number(const Tensor<Real>& x, std::int64_t i) const {
    const Real* p = x.at(r) + parts * i;
    return {p[0], parts == 2 ? p[1] : Real(0)};
  }
  CT_HD void store(const Tensor<Real>& x, std::int64_t i, Complex<Real> value) const {
    Real* p = x.at(r) + parts * i;
    p[0] = value.re;
    if (parts == 2) p[1] = value.im;
  }
  CT_HD void store(const In<Real>& in, std::int64_t i, Complex<Real> value) const {
    if (!in.wanted()) return;
    store(in.gradient, i, in.write == Write::add ? number(in.gradient, i) + value : value);
  }
  /// For tensors without parts.
  CT_HD void store_real(const In<Real>& in, std::int64_t i, Real value) const {
    if (!in.wanted()) return;
    Real* p = in.gradient.at(r) + i;
    *p = in.write == Write::add ? *p + value : value;
  }
  CT_HD Complex<Real> factor(int t) const {
    const Real size = exp_(op.log_a.value.at(r)[at(t)]);
    if (parts == 1) return {size, 0};
    const Real angle = op.angle.value.at(r)[at(t)];
    return {size * cos_(angle), size * sin_(angle)};
  }
  CT_HD Complex<Real> x(int t) const { return number(op.x.value, at(t)); }
  /// h_{t-1}
  CT_HD Complex<Real> before(int t) const {
    if (t > 0) return number(op.h.value, at(t - 1));
    return op.start ? number(op.start.value, start) : Complex<Real>{0, 0};
  }

  /// One token: h_{t-1} -> h_t.
  CT_HD void forward(int t, Complex<Real>& carried) const {
    carried = factor(t) * carried + x(t);
    store(op.h.value, at(t), carried);
  }
  /// One token, the last first: conj(a_{t+1}) lambda_{t+1} -> conj(a_t) lambda_t.
  CT_HD void backward(int t, Complex<Real>& carried) const {
    const Complex<Real> a = factor(t), lambda = number(op.h.gradient, at(t)) + carried;
    const Complex<Real> turn = lambda.conjugate() * (a * before(t));
    carried = a.conjugate() * lambda;
    store_real(op.log_a, at(t), turn.re);
    store_real(op.angle, at(t), -turn.im);
    store(op.x, at(t), lambda);
  }
  CT_HD void finish(Complex<Real> carried) const { store(op.start, start, carried); }
};

/// Channel n of sequence b of a LogScan.
template <class Real>
struct LogScanChannel {
  const LogScan<Real>& op;
  int r, N, T;
  std::int64_t first, start;

  CT_HD LogScanChannel(const LogScan<Real>& op_, int r_, int b, int n)
      : op(op_),
        r(r_),
        N(op.d.value.dim(2)),
        T(op.d.value.dim(1)),
        first(static_cast<std::int64_t>(b) * T * N + n),
        start(static_cast<std::int64_t>(b) * N + n) {}
  CT_HD std::int64_t at(int t) const { return first + static_cast<std::int64_t>(t) * N; }
  /// L_{t-1}
  CT_HD Real before(int t) const {
    if (t > 0) return op.l.value.at(r)[at(t - 1)];
    return op.start ? op.start.value.at(r)[start] : -static_cast<Real>(INFINITY);
  }
  CT_HD void forward(int t, Real& carried) const {
    const Real old = carried + op.d.value.at(r)[at(t)], k = op.k.value.at(r)[at(t)];
    const Real most = old > k ? old : k;
    carried = op.largest || old == -static_cast<Real>(INFINITY) ? most : most + log1p_(exp_(-abs_(old - k)));
    op.l.value.at(r)[at(t)] = carried;
  }
  /// carried: w_{t+1} mu_{t+1} -> w_t mu_t.
  CT_HD void backward(int t, Real& carried) const {
    const Real old = before(t) + op.d.value.at(r)[at(t)], k = op.k.value.at(r)[at(t)];
    const Real mu = op.l.gradient.at(r)[at(t)] + carried;
    const bool nothing = old == -static_cast<Real>(INFINITY);
    const Real e = nothing || op.largest ? Real(0) : exp_(-abs_(old - k)), larger = 1 / (1 + e),
               smaller = e / (1 + e);
    carried = (nothing || old < k ? smaller : larger) * mu;
    store(op.d, at(t), carried);
    store(op.k, at(t), (nothing || old < k ? larger : smaller) * mu);
  }
  CT_HD void finish(Real carried) const { store(op.start, start, carried); }

 private:
  CT_HD void store(const In<Real>& in, std::int64_t i, Real value) const {
    if (!in.wanted()) return;
    Real* p = in.gradient.at(r) + i;
    *p = in.write == Write::add ? *p + value : value;
  }
  CT_HD static Real abs_(Real x) { return x < 0 ? -x : x; }
};

}  // namespace crosstalk
