// Fast weight memory: the delta rule with the state rescaled to Frobenius norm <= 1 after every step, read
// through LayerNorm (Schlag, Munkhdalai, Schmidhuber 2021; the rule "fwm" of Schlag, Irie, Schmidhuber 2021's
// synthetic code).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(fwm) {
  return {
      .summary = "delta rule with a rescaled state, read through LayerNorm",
      .does = "the delta rule in a rescaled state, retrieved through LayerNorm",
      .family = Family::erases,
      .law = R"(
    gate = token
    beta = beta_max sigmoid(gate)
    state first[1] = 1
    S += beta (v - S k) k^T
    S = S / (relu(norm(S) - 1) (1 - first) + 1)
    first = 0
    read S q)",
      .source = "Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831; as in the code of arXiv 2102.11174",
      .notes =
          "Not linear in its state, so the state is formed. Read through LayerNorm without gain (read_norm).",
      .parts = {feature_map("tanh"), key_norm("none"),
                read_norm("layernorm", {"none", "attention", "layernorm"}), beta_max()},
      .inputs = {{"beta"}},
      .forms_state = true,
      .check = [](Options& o) {
        if (o.get_string("memory.read_norm") != "attention") return;
        throw OptionError(
            "memory.read_norm",
            "memory.read_norm = \"attention\" has no meaning for fwm: its state is rescaled after every "
            "step, so no running sum of keys matches it; use \"layernorm\" or \"none\"");
      }};
}
