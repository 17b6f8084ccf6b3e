// Q-Delta: a gated delta rule whose error mixes what the key and what the token's query read (Park, Kim, Park 2026, arXiv 2606.08804, eq.
// 17-20). A query beside the sequence stands at no token, and then it is gated_delta.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(q_delta) {
  return {
      .summary = "gated delta rule whose error mixes what key and query read",
      .does = "decays the whole state, then writes the value less what key and query of the token read",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    query_share = beta_max sigmoid(token - 0.9)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    mixed = beside ? k : k + query_share q / scale
    S = exp(log_decay) S
    S += beta (v - S mixed) k^T
    read S q)",
      .source = "Park, Kim, Park 2026, arXiv 2606.08804",
      .notes =
          "The released kernels have k_t.(k_j + query_share_j q_j) between tokens t > j of a chunk, where this law has (k_t + query_share_t q_t).k_j.",
      .bounded_by_rank = true,  // beside the sequence
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .inputs = {{"log_decay"}, {"beta"}, {.name = "query_share", .optional = true, .open = Open{0}}},
      .own_token = true,
      .published = {
          .source = "; psmiz/Q-Delta@4afe5b5 qdelta/qdelta.py",
          .settings =
              convolved_layer("uniform", "biases=-beta -query_share -out_gate, memory.rate_from=0.0", "silu"),
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 34244,
          .undecayed = {"A_log", "decay.bias"},
          .lacks = {{"heads narrower than the width divided by their number (0.75 of it)",
                     "a state and projections a third larger; model.d_key and model.d_value set them"}}}};
}
