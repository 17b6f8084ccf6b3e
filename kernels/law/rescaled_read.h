// The fast weight memory of Schlag, Munkhdalai, Schmidhuber (2021) with dense values and heads: a delta rule
// whose state is divided by its Frobenius norm wherever that is above 1.
//
//   S'  = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T
//   S_t = S' / (relu(|S'|_F - 1) + 1)
//   o   = S_n q after n tokens
//
// The first token is not rescaled, S_1 = beta_1 v_1 k_1^T, unless there is a state before it (start): then it
// is a token like the others. The rescaling makes it non-linear in S, so the state itself is formed.
// ops/fwm.h is the same for one head and values that are ids.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

#include "kernels/base/buffer.h"
#include "kernels/base/op.h"

namespace crosstalk {

/// Tokens between two kept states.
constexpr int kRescaledSegment = 16;
constexpr int rescaled_segments(int T) { return (T + kRescaledSegment - 1) / kRescaledSegment; }

/// Gradients of a variable that stands in several fields are added up in any order.
template <class Real>
struct RescaledRead {
  In<Real> q;      ///< [R,B,Q,H,K]
  In<Real> k;      ///< [R,B,T,H,K]
  In<Real> v;      ///< [R,B,T,H,V]
  In<Real> beta;   ///< [R,B,T,H]
  In<Real> start;  ///< S_0 [R,B,H,V,K]; absent: 0, and the first token is not rescaled
  Ids position;    ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands behind token t
  Out<Real> o;     ///< [R,B,Q,H,V]
  Out<Real> end;   ///< S_T [R,B,H,V,K]; wanted where its shape is set before plan()
  Saved<Real> states;  ///< [R,B,H,segments,V*K]: the state before each segment
  Work<Real> work;     ///< [R,B,H,numbers] for CUDA

  static constexpr const char* kName = "rescaled_read";
  template <class F>
  void fields(F&& f) {
    f("q", q), f("k", k), f("v", v), f("beta", beta), f("start", start), f("position", position);
    f("o", o), f("end", end), f("states", states), f("work", work);
  }

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }

  /// Checks the shapes of the inputs and sets those of the others.
  void plan() {
    const auto want = [](bool ok, const char* what) {
      if (!ok) throw std::logic_error(std::string("[rescaled_read] ") + what);
    };
    want(q && k && v && beta, "q, k, v and beta are needed");
    want(q.value.rank == 4 && k.value.rank == 4 && v.value.rank == 4, "q, k, v have shape [B,T,H,size]");
    want(q.value.dim(0) == B() && q.value.dim(2) == H() && q.value.dim(3) == K(), "q and k do not fit");
    want(v.value.dim(0) == B() && v.value.dim(1) == T() && v.value.dim(2) == H(), "v and k do not fit");
    want(beta.value.size() == static_cast<std::int64_t>(B()) * T() * H(), "beta is [B,T,H]");
    want(!start || start.value.size() == static_cast<std::int64_t>(B()) * H() * V() * K(),
         "start is [B,H,V,K]");
    want(position || Q() == T(), "without positions every token is read: Q = T");
    const int R = k.value.R;
    o.value = shaped<Real>(R, {B(), Q(), H(), V()});
    states.value = shaped<Real>(R, {B(), H(), rescaled_segments(T()), V() * K()});
    work.value = shaped<Real>(R, {B(), H(), work_numbers()});
  }
  /// Backward on CUDA: the states around the tokens of a segment, the state's gradient, two columns of it.
  int work_numbers() const {
    return ((T() < kRescaledSegment ? T() : kRescaledSegment) + 2) * V() * K() + 2 * V();
  }
};
CROSSTALK_OP(RescaledRead)

}  // namespace crosstalk
