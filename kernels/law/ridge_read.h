// MesaNet's memory (von Oswald et al. 2025, arXiv 2506.05233): what is read is the ridge regression of values
// on keys so far, older tokens weighing less.
//
//   S_t = e^{g_t} S_{t-1} + w_t v_t k_t^T
//   H_t = e^{g_t} H_{t-1} + w_t k_t k_t^T
//   o   = S_n x,   (H_n + Diag(ridge)) x = q   after n tokens
//
// x comes from conjugate gradients, from 0, in a fixed number of iterations, fewer where it has converged; a division by 0 gives 0, so that
// what has converged stays (an eps in the denominator would keep it from converging). Backward is that of the
// exact solution and solves once more:
//
//   (H_n + Diag(ridge)) y = S_n^T do,   dq = y,   dH = -y x^T,   dridge = -y * x,   dS = do x^T
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Gradients of a variable that stands in several fields are added up in any order.
/// Share of the right side's squares below which a residual is rounding, and iterations end: going on would add noise to
/// a solution that has converged.
template <class Real>
inline constexpr Real kRidgeEnough = sizeof(Real) == sizeof(float) ? Real(1.4e-14)
                                                                   : Real(4.9e-32);  // epsilon^2

template <class Real>
struct RidgeRead {
  Device device = Device::cpu;  ///< where it runs: what is kept depends on it
  int iterations = 30;
  In<Real> q;           ///< [R,B,Q,H,K]
  In<Real> k;           ///< [R,B,T,H,K]
  In<Real> v;           ///< [R,B,T,H,V]
  In<Real> gain;        ///< w [R,B,T,H,1]; absent: 1
  In<Real> log_decay;   ///< g [R,B,T,H,1]; absent: 0
  In<Real> ridge;       ///< [R,B,1,H,K], above 0
  In<Real> start;       ///< S_0 [R,B,H,V,K]; absent: 0
  In<Real> start_keys;  ///< H_0 [R,B,H,K,K], symmetric; absent: 0
  Ids position;   ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands behind token t
  Out<Real> o;    ///< [R,B,Q,H,V]
  Out<Real> end;  ///< S_T [R,B,H,V,K]; wanted where its shape is set before plan()
  Out<Real> end_keys;    ///< H_T [R,B,H,K,K]; wanted where its shape is set before plan()
  Saved<Real> states;    ///< [R,B,H,segments,(V+K)*K]: S and H before each segment
  Saved<Real> x;         ///< [R,B,Q,H,K]
  Work<Real> work;       ///< [R,B,H,numbers]
  Work<Real> work_keys;  ///< what a form works with: H before each chunk of tokens
  const FusedForm<RidgeRead>* form = nullptr;  ///< null: the law, token after token

  static constexpr const char* kName = "ridge_read";
  const char* form_name(Device) const { return form ? form->name : "recurrent"; }
  CROSSTALK_FIELDS(q, k, v, gain, log_decay, ridge, start, start_keys, position, o, end, end_keys, states, x,
                   work, work_keys)

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }
  CT_HD std::int64_t size() const { return (std::int64_t{V()} + K()) * K(); }
  /// Right side and solution, and conjugate gradients' residual, direction and product.
  CT_HD int scratch() const { return 5 * K(); }

  void plan() {
    const PlanCheck want{kName};
    want(q && k && v && ridge, "q, k, v and ridge are needed");
    law::check_tokens(*this, want);
    const std::int64_t heads = static_cast<std::int64_t>(B()) * H();
    want(!gain || gain.value.size() == heads * T(), "gain is [B,T,H,1]");
    want(!log_decay || log_decay.value.size() == heads * T(), "log_decay is [B,T,H,1]");
    want(ridge.value.size() == heads * K(), "ridge is [B,1,H,K]");
    want(!start || start.value.size() == heads * V() * K(), "start is [B,H,V,K]");
    want(!start_keys || start_keys.value.size() == heads * K() * K(), "start_keys is [B,H,K,K]");
    want(iterations > 0, "conjugate gradients need an iteration");
    if (law::plan_walk(*this, k.value.R, size(), scratch()))
      x.value = shaped<Real>(k.value.R, {B(), Q(), H(), K()});
  }
};
CROSSTALK_OP(RidgeRead)

}  // namespace crosstalk
