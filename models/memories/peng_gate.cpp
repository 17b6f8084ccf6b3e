// Peng's gate: S_t = (1 - beta_t) S_{t-1} + beta_t v_t phi(k_t)^T, z_t likewise with phi(k_t), o = S phi(q) /
// (z.phi(q)) (Peng et al. 2021, random feature attention; Schlag et al. 2021, appendix B). It fades
// everything, not one key.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory peng_gate() {
  return {.name = "peng_gate",
          .summary = "gated sum rule: every write decays all that is stored",
          .does = "decays the whole state by 1 - g and adds with weight g",
          .family = Family::adds,
          .equation =
              "S_t = (1 - beta_t) S_{t-1} + beta_t v_t phi(k_t)^T, o = S phi(q); with read_norm "
              "attention z_t = (1 - beta_t) z_{t-1} + beta_t phi(k_t) and o = S phi(q) / (z.phi(q) + "
              "1e-6)",
          .laws = "beta_t = sigmoid(w.token + b)",
          .source =
              "Peng et al. 2021, arXiv 2103.02143; compared in Schlag, Irie, Schmidhuber 2021, arXiv "
              "2102.11174, appendix B",
          .bounded_by_rank = true,
          .parts = {feature_map("elu1"), key_norm("none"),
                    read_norm("attention", {"none", "attention", "layernorm"})},
          .inputs = {{.name = "beta", .open = Open{0.1}, .range = {0.05, 0.95}}},
          .states = {"S", "z"},
          .state = state::matrix_and_sum,
          .build = [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = m.input("beta", [&] { return sigmoid(m.token("gate")); });
            const bool attention = m.text("read_norm") == "attention";
            return normalised_read(m, read(m, q, {.key = k, .gain = beta, .decay = 1.0 - beta},
                                           attention ? std::optional(m.read_eps()) : std::nullopt));
          }};
}

}  // namespace crosstalk::memories
