// Peng's gate, which fades everything, not one key (Peng et al. 2021, random feature attention; Schlag et al. 2021, appendix B).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(peng_gate) {
  return {
      .summary = "gated sum rule: every write decays all that is stored",
      .does = "decays the whole state by 1 - g and adds with weight g",
      .family = Family::adds,
      .law = R"(
    gate = token
    beta = sigmoid(gate)
    state z[K]
    S = (1 - beta) S + beta v k^T
    z = (1 - beta) z + beta k
    read read_norm == "attention" ? S q / (z^T q + eps) : S q)",
      .source =
          "Peng et al. 2021, arXiv 2103.02143; compared in Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174, appendix B",
      .parts = {feature_map("elu1"), key_norm("none"),
                read_norm("attention", {"none", "attention", "layernorm"})},
      .inputs = {{.name = "beta", .open = Open{0.1}}}};
}
