// The fast weight memory of Schlag, Munkhdalai, Schmidhuber (2021), as the synthetic code of Schlag, Irie,
// Schmidhuber (2021) has it: a delta rule whose state is divided by its Frobenius norm wherever above 1.
//
//   S'  = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T
//   S_t = S' / (relu(|S'|_F - 1) + 1)
//   o   = S_n q after n tokens
//
// The first token is not rescaled, S_1 = beta_1 v_1 k_1^T, unless there is a state before it (start): then it
// is a token like the others. The rescaling makes it non-linear in S, so the state itself is formed.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Values are dense (v), or one-hot and given by their ids (tokens), which all heads share. Gradients of a
/// variable that stands in several fields are added up in any order.
template <class Real>
struct FwmRead {
  Device device = Device::cpu;  ///< where it runs: what is kept depends on it
  int values = 0;               ///< V where values are ids

  In<Real> q;      ///< [R,B,Q,H,K]
  In<Real> k;      ///< [R,B,T,H,K]
  In<Real> v;      ///< [R,B,T,H,V]; absent: ids
  In<Real> beta;   ///< [R,B,T,H]
  In<Real> start;  ///< S_0 [R,B,H,V,K]; absent: 0, and the first token is not rescaled
  Ids tokens;      ///< int32 [R,B,T,C], value ids in channel 1 (-1: a zero value); absent: v
  Ids position;    ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands behind token t
  Out<Real> o;     ///< [R,B,Q,H,V]
  Out<Real> end;   ///< S_T [R,B,H,V,K]; wanted where its shape is set before plan()
  Saved<Real> states;  ///< [R,B,H,segments,V*K+1]: the state before each segment, and what it was divided by
  Saved<Real> kept;    ///< what a form keeps beside states
  Work<Real> work;     ///< [R,B,H,numbers]
  const FusedForm<FwmRead>* form = nullptr;  ///< null: the law, token after token

  static constexpr const char* kName = "fwm_read";
  const char* form_name(Device) const { return form ? form->name : "recurrent"; }
  CROSSTALK_FIELDS(q, k, v, beta, start, tokens, position, o, end, states, kept, work)

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v ? v.value.dim(3) : values; }
  CT_HD std::int64_t size() const { return std::int64_t{V()} * K() + 1; }
  CT_HD int scratch() const { return 2 * V(); }

  /// Checks the shapes of the inputs, chooses the form and sets the other shapes.
  void plan() {
    const PlanCheck want{kName};
    want(q && k && beta, "q, k and beta are needed");
    law::check_tokens(*this, want);
    want(static_cast<bool>(v) != static_cast<bool>(tokens), "values are dense, or ids");
    want(v || (values > 0 && tokens.value.dim(0) == B() && tokens.value.dim(1) == T()),
         "ids and k do not fit");
    want(beta.value.size() == static_cast<std::int64_t>(B()) * T() * H(), "beta is [B,T,H]");
    want(!start || start.value.size() == static_cast<std::int64_t>(B()) * H() * V() * K(),
         "start is [B,H,V,K]");
    law::plan_walk(*this, k.value.R, size(), scratch());
  }
};
CROSSTALK_OP(FwmRead)

}  // namespace crosstalk
