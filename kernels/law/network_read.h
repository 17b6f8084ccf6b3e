// A memory that is a network, trained while it reads: every token is a step of gradient descent (TTT, Sun et
// al. 2024, arXiv 2407.04620; with momentum and forgetting Titans, Behrouz et al. 2025, arXiv 2501.00663).
//
//   f(x)   = [x +] z(x)  or, with a gain,  [x +] LayerNorm(z(x)) * gain + bias
//   z(x)   = W x + b                            linear
//   z(x)   = W2 gelu(W1 x + b1) + b2            with hidden units; gelu by tanh
//   loss_t = 1/2 |f(k_t) - v_t|^2
//   P_t    = momentum_t P_{t-1} - step_t dloss_t/dtheta     at theta of the mini-batch's start
//   theta_t = (1 - forget_t) theta_{t-1} + P_t
//   o      = f(q) at theta_n after n tokens
//
// x in the sum is cut to V numbers or filled with zeros. Tokens 0 .. mini_batch - 1 are the first mini-batch,
// and so on. Backward is that of all of it, the inner gradients too.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/law/law_walk.h"

namespace crosstalk {

/// Parts of theta, in this order; the momentum P has the same parts.
enum NetworkPart : int { network_w1, network_b1, network_w2, network_b2, network_parts };

/// Gradients of a variable that stands in several fields are added up in any order.
template <class Real>
struct NetworkRead {
  Device device = Device::cpu;  ///< where it runs: what is kept depends on it
  int hidden = 0;               ///< hidden units M; 0: linear, W and b are w2 and b2
  bool biases = false;          ///< whether there are b1 and b2
  bool residual = false;        ///< whether f adds x
  int mini_batch = 1;
  In<Real> q;         ///< [R,B,Q,H,K]
  In<Real> k;         ///< [R,B,T,H,K]
  In<Real> v;         ///< [R,B,T,H,V]
  In<Real> step;      ///< [R,B,T,H,1]
  In<Real> momentum;  ///< [R,B,T,H,1]; absent: no P is kept
  In<Real> forget;    ///< [R,B,T,H,1]; absent: 0
  In<Real> gain;      ///< [R,B,1,H,V]; absent: no LayerNorm
  In<Real> bias;      ///< [R,B,1,H,V], with gain
  Ids position;  ///< int32 [R,B,Q]: tokens that a query sees; absent: Q = T, query t stands behind token t
  /// theta_0 and P_0, parts [R,B,H,M,K], [R,B,H,M], [R,B,H,V,M or K], [R,B,H,V]; absent: 0.
  In<Real> start[2 * network_parts];
  Out<Real> o;  ///< [R,B,Q,H,V]
  /// theta_T and P_T; wanted where their shapes are set before plan().
  Out<Real> end[2 * network_parts];
  Saved<Real>
      states;  ///< [R,B,H,segments,size]: theta, P, and theta of the mini-batch's start, before each segment
  Saved<Real> kept;                              ///< what a form keeps beside states
  Work<Real> work;                               ///< [R,B,H,numbers]
  const FusedForm<NetworkRead>* form = nullptr;  ///< null: the law, token after token

  static constexpr const char* kName = "network_read";
  const char* form_name(Device) const { return form ? form->name : "recurrent"; }
  void fields(auto&& f) {
    static constexpr const char* starts[] = {"start_w1", "start_b1", "start_w2", "start_b2",
                                             "start_p1", "start_c1", "start_p2", "start_c2"};
    static constexpr const char* ends[] = {"end_w1", "end_b1", "end_w2", "end_b2",
                                           "end_p1", "end_c1", "end_p2", "end_c2"};
    f("q", q), f("k", k), f("v", v), f("step", step), f("momentum", momentum), f("forget", forget);
    f("gain", gain), f("bias", bias), f("position", position);
    for (int i = 0; i < 2 * network_parts; ++i) f(starts[i], start[i]);
    f("o", o);
    for (int i = 0; i < 2 * network_parts; ++i) f(ends[i], end[i]);
    f("states", states), f("kept", kept), f("work", work);
  }

  CT_HD int B() const { return k.value.dim(0); }
  CT_HD int T() const { return k.value.dim(1); }
  CT_HD int Q() const { return q.value.dim(1); }
  CT_HD int H() const { return k.value.dim(2); }
  CT_HD int K() const { return k.value.dim(3); }
  CT_HD int V() const { return v.value.dim(3); }
  /// Inputs of the last layer.
  CT_HD int X() const { return hidden > 0 ? hidden : K(); }
  CT_HD std::int64_t part_size(int part) const {
    switch (part % network_parts) {
      case network_w1:
        return std::int64_t{hidden} * K();
      case network_b1:
        return biases ? hidden : 0;
      case network_w2:
        return std::int64_t{V()} * X();
      default:
        return biases ? V() : 0;
    }
  }
  /// Place of a part in theta (network_parts: numbers of theta).
  CT_HD std::int64_t part_offset(int part) const {
    std::int64_t offset = 0;
    for (int i = 0; i < part; ++i) offset += part_size(i);
    return offset;
  }
  CT_HD int copies() const { return 1 + (momentum ? 1 : 0) + (mini_batch > 1 ? 1 : 0); }
  CT_HD std::int64_t size() const { return copies() * part_offset(network_parts); }
  CT_HD std::int64_t scratch() const { return part_offset(network_parts) + 8 * hidden + 8 * V(); }

  void plan() {
    const PlanCheck want{kName};
    want(q && k && v && step, "q, k, v and step are needed");
    law::check_tokens(*this, want);
    const std::int64_t heads = static_cast<std::int64_t>(B()) * H();
    for (const In<Real>* x : {&step, &momentum, &forget})
      want(!*x || x->value.size() == heads * T(), "step, momentum, forget are [B,T,H,1]");
    want(static_cast<bool>(gain) == static_cast<bool>(bias), "LayerNorm has a gain and a bias");
    want(!gain || (gain.value.size() == heads * V() && bias.value.size() == heads * V()),
         "gain and bias are [B,1,H,V]");
    want(mini_batch > 0 && hidden >= 0, "mini-batches have a token");
    for (int i = 0; i < 2 * network_parts; ++i) {
      const std::int64_t n = i < network_parts || momentum ? heads * part_size(i) : 0;
      want(!start[i] || (n > 0 && start[i].value.size() == n), "a start does not fit");
      want(!end[i] || (n > 0 && end[i].value.size() == n), "an end does not fit");
    }
    law::plan_walk(*this, k.value.R, size(), scratch());
  }
};
CROSSTALK_OP(NetworkRead)

}  // namespace crosstalk
