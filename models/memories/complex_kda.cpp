// KDA with signed gates: S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, alpha_t in (-1, 1)^K
// (Complex KDA; gates of either sign as in Grazzi et al. 2024, arXiv 2411.12537, equation 2 s - 1).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory complex_kda() {
  return {
      .name = "complex_kda",
      .summary = "KDA whose decays may be negative: key channels that change sign",
      .does = "decays every key channel by a factor of either sign, then the delta rule: channels that flip",
      .family = Family::erases,
      .equation = "S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, o = S q",
      .laws =
          "alpha_t = 2 exp(-e^A softplus(W2 W1 token + b)) - 1, beta_t = beta_max sigmoid(w'.token "
          "+ b')",
      .source = "Kimi team 2025, arXiv 2510.26692, with the gates of Grazzi et al. 2024, arXiv 2411.12537",
      .notes = "Signs are multiplied into keys and queries, where they cost nothing.",
      .bounded_by_rank = true,
      .flops = flops::weights<18>,
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .inputs = {{.name = "signed_decay", .per = Per::key, .symbol = "alpha", .range = {-1, 1, 1e-9}},
                 {.name = "beta", .range = {0.05, 0.95}}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto beta = beta_gate(m);
        const auto decay = m.input("signed_decay", [&] { return -1.0 + 2.0 * exp(mamba_law(m, m.K)); });
        return read(m, q,
                    {.key = k,
                     .gain = beta,
                     .log_decay = 0.5 * log(decay * decay),
                     .sign = decay,
                     .erase = Erase::delta});
      }};
}

}  // namespace crosstalk::memories
