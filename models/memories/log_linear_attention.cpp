// Log-linear attention: gated linear attention with a state for every level of a Fenwick tree, S_t^l, and a gain for each:
// o_t = sum_l lambda_t^l S_t^l q_t (Guo et al. 2025, arXiv 2506.04761, with Mamba-2's decay).
// SPDX-License-Identifier: Apache-2.0
#include "models/levels.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory log_linear_attention() {
  return {
      .name = "log_linear_attention",
      .summary = "gated sum rule with log T states: the far past in ever larger blocks",
      .does =
          "decays by a data-dependent scalar, then adds, in log T states: older tokens in ever larger blocks",
      .family = Family::adds,
      .equation =
          "S_t = alpha_t S_{t-1} + v_t phi(k_t)^T, kept in parts S^l: token t alone (l = 0) and the "
          "blocks of 2^(l-1) tokens before it that the binary digits of t say; o = sum_l lambda_t^l "
          "S^l phi(q)",
      .laws = "lambda_t = softplus(L * (W token + b)), alpha_t = exp(-e^A softplus(w.token + b'))",
      .source = "Guo et al. 2025, arXiv 2506.04761",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "level_gate",
                  .per = Per::other,
                  .shape = "[B,T,H,L]",
                  .symbol = "lambda",
                  .range = {0.05, 0.95}}},
      .states = {},
      .state = level_states,
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        return read_by_levels(m, q, {.key = k, .log_decay = mamba_decay(m)}, level_gates(m));
      }};
}

}  // namespace crosstalk::memories
