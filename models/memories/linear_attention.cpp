// The sum rule (Katharopoulos et al. 2020; with read_norm none the fast weights of Schmidhuber 1991).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(linear_attention) {
  return {
      .summary = "sum rule: adds up outer products, never erases",
      .does = "adds an outer product (the sum rule), never erases",
      .family = Family::adds,
      .law = R"(
    state z[K]
    S += v k^T
    z += k
    read read_norm == "attention" ? S q / (z^T q + eps) : S q)",
      .source =
          "Katharopoulos et al. 2020, arXiv 2006.16236 (elu1); Schlag, Irie, Schmidhuber 2021, "
          "arXiv 2102.11174 (dpfp); Choromanski et al. 2021, arXiv 2009.14794 (favor)",
      .notes = "At most d_dot associations can be told apart.",
      .order_free = true,
      .parts = {feature_map("elu1"), key_norm("none"),
                read_norm("attention", {"none", "attention", "layernorm"})},
      .published = {
          .source =
              "Arora et al. 2024 (Based), arXiv 2402.18668; HazyResearch/zoology@d88d6f5 zoology/mixers/based.py",
          .settings = "memory.feature_map=taylor, d_key=16, feature_scale=true, "
                      "out_deviation=plain",
          .lacks = {{"eps 1e-12 of the denominator (here 1e-6)", "the first tokens are read 1e-6 less"},
                    {"one head", "a study says model.heads"}}}};
}
