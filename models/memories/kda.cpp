// Kimi Delta Attention: S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, alpha_t in R^K
// (Kimi Linear 2025, arXiv 2510.26692, eq. 1). SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory kda() {
  return {
      .name = "kda",
      .summary = "gated delta rule with a decay for every key channel",
      .equation =
          "S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, o = S q, alpha_t = exp(-e^A "
          "softplus(W2 W1 token + b)), beta_t = beta_max sigmoid(w.token + b')",
      .source = "Kimi team 2025, arXiv 2510.26692",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .inputs = {{"log_decay", Per::key}, {"beta"}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto beta = beta_gate(m);
        const auto g = mamba_decay(m, m.K);
        return read(m, q, {.key = k, .gain = beta, .log_decay = g, .erase = Erase::delta});
      }};
}

}  // namespace crosstalk::memories
