// RWKV-4's memory: an average of values for every channel, weighed by e^k and fading (Peng et al. 2023,
// arXiv 2305.13048).
//
//   L_t = log(e^{g + L_{t-1}} + e^{k_t})                  L_0 = -inf
//   y_t = w y_{t-1} + (1 - w) v_t                         w = sigmoid(g + L_{t-1} - k_t)
//   o   = y_n after n tokens                              beside the sequence (0 after none)
//   o_t = s y_{t-1} + (1 - s) v_t                         s = sigmoid(L_{t-1} - bonus - k_t), at tokens
//
// y is the sum of e^{(t-1-j) g + k_j} v_j divided by that of the same without v, and L the logarithm of the
// divisor: no exponential of an unbounded number occurs.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Gradients of a variable that stands in several fields are added up in any order.
template <class Real>
struct WkvRead {
  In<Real> k;          ///< [R,B,T,H,V]
  In<Real> v;          ///< [R,B,T,H,V]
  In<Real> log_decay;  ///< g [R,B,1,H,V]
  In<Real> bonus;      ///< [R,B,1,H,V]; present: query t stands at token t and position is absent
  In<Real> start;      ///< y_0 [R,B,H,V]; with start_log; absent: there is nothing
  In<Real> start_log;  ///< L_0 [R,B,H,V]
  Ids position;        ///< int32 [R,B,Q]: tokens that a query sees
  Out<Real> o;         ///< [R,B,Q,H,V]
  Out<Real> end;       ///< y_T [R,B,H,V]; wanted where its shape is set before plan()
  Out<Real> end_log;   ///< L_T [R,B,H,V]; wanted where its shape is set before plan()
  Saved<Real> states;  ///< [R,B,H,segments,2*V]: y and L before each segment
  Work<Real> work;     ///< [R,B,H,numbers]

  static constexpr const char* kName = "wkv_read";
  CROSSTALK_FIELDS(k, v, log_decay, bonus, start, start_log, position, o, end, end_log, states, work)

  CT_HD int B() const { return v.value.dim(0); }
  CT_HD int T() const { return v.value.dim(1); }
  CT_HD int Q() const { return position ? position.value.dim(1) : T(); }
  CT_HD int H() const { return v.value.dim(2); }
  CT_HD int V() const { return v.value.dim(3); }
  CT_HD bool before() const { return static_cast<bool>(bonus); }

  void plan() {
    const PlanCheck want{kName};
    want(k && v && log_decay, "k, v and log_decay are needed");
    want(v.value.rank == 4 && k.value.size() == v.value.size(), "k and v have shape [B,T,H,V]");
    const std::int64_t channels = static_cast<std::int64_t>(B()) * H() * V();
    want(log_decay.value.size() == channels, "log_decay is [B,1,H,V]");
    want(!bonus || bonus.value.size() == channels, "bonus is [B,1,H,V]");
    want(static_cast<bool>(bonus) != static_cast<bool>(position),
         "queries stand at tokens, or have positions");
    want(static_cast<bool>(start) == static_cast<bool>(start_log), "a start has two parts");
    want(!start || (start.value.size() == channels && start_log.value.size() == channels),
         "start is [B,H,V]");
    law::plan_walk(*this, v.value.R, 2 * V(), 0);
  }
};
CROSSTALK_OP(WkvRead)

}  // namespace crosstalk
