// Fast weights of 2016: A_t = lambda A_{t-1} + eta h_t h_t^T with constant lambda and eta, and an inner loop that settles
// under A before anything is read: h^{s+1} = relu(LayerNorm(q + A h^s)) (Ba et al. 2016, arXiv 1610.06258, eqs 1 and
// 2). Here tokens' keys are the h_t, the query stands for the boundary condition W h + C x, and S, written by the same
// rule, gives the values.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(fast_weights) {
  return {
      .summary = "fast weights of 2016: constant decay, and queries that settle in an inner loop",
      .does =
          "decays the whole state by a constant, then adds; queries settle in an inner loop first (fast weights of 2016)",
      .family = Family::adds,
      .law = R"(
    state A[K, K]
    S = exp(log(decay)) S + v (rate k)^T
    A = exp(log(decay)) A + k (rate k)^T
    h0 = inner_steps == 0 ? q : relu(layernorm(q))
    repeat inner_steps: h{n} = relu(layernorm(q + A h{n-1}))
    read S h{inner_steps})",
      .source = "Ba, Hinton, Mnih, Leibo, Ionescu 2016, arXiv 1610.06258",
      .notes = "The paper's A is auto-associative; S beside it reads values. LayerNorm has no gain.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {{"decay", 0.95, "what a step leaves of the state (lambda)", 0, 1},
                  {"rate", 0.5, "what a write is multiplied by (eta)", 0},
                  number("inner_steps", 1, "steps of the inner loop", 0, 100, {0, 1, 2})}};
}
