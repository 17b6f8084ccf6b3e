// Fast weight memory: the delta rule with the state rescaled to Frobenius norm <= 1 after every step, read
// through LayerNorm (Schlag, Munkhdalai, Schmidhuber 2021; the rule "fwm" of Schlag, Irie, Schmidhuber 2021's
// synthetic code).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory fwm() {
  return {
      .name = "fwm",
      .summary = "delta rule with a rescaled state, read through LayerNorm",
      .does = "the delta rule in a rescaled state, retrieved through LayerNorm",
      .family = Family::erases,
      .equation =
          "S_1 = beta_1 v_1 k_1^T; S' = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T, S_t = S' / "
          "(relu(|S'|_F - 1) + 1); o = LayerNorm(S q) without gain",
      .laws = "beta_t = beta_max sigmoid(w.token + b)",
      .source =
          "Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831; as in the code of arXiv "
          "2102.11174",
      .notes = "Not linear in its state, so the state is formed.",
      .bounded_by_rank = true,
      .flops = flops::formed_state<24>,
      .parts = {feature_map("tanh"), key_norm("none"),
                read_norm("layernorm", {"none", "attention", "layernorm"}), beta_max()},
      .inputs = {{.name = "beta", .range = {0.05, 0.95}}},
      .forms_state = true,
      .state = state::matrix_and_sum,
      .check =
          [](Options& o) {
            if (o.get_string("memory.read_norm") != "attention") return;
            throw OptionError(
                "memory.read_norm",
                "memory.read_norm = \"attention\" has no meaning for fwm: its state is rescaled after every "
                "step, so no running sum of keys matches it; use \"layernorm\" or \"none\"");
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            return normalised_read(m, fwm_read(m, q, k, beta_gate(m, "gate")));
          }};
}

}  // namespace crosstalk::memories
