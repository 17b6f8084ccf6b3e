// The sum rule: S_t = S_{t-1} + v_t phi(k_t)^T, o = S phi(q) / (z.phi(q) + 1e-6), z = sum_t phi(k_t)
// (Katharopoulos et al. 2020; with read_norm none the fast weights of Schmidhuber 1991).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory linear_attention() {
  return {.name = "linear_attention",
          .summary = "sum rule: adds up outer products, never erases",
          .does = "adds an outer product (the sum rule), never erases",
          .family = Family::adds,
          .equation =
              "S_t = S_{t-1} + v_t phi(k_t)^T, o = S phi(q); with read_norm attention divided by "
              "z.phi(q) + 1e-6, z = sum phi(k)",
          .source =
              "Katharopoulos et al. 2020, arXiv 2006.16236 (elu1); Schlag, Irie, Schmidhuber 2021, "
              "arXiv 2102.11174 (dpfp); Choromanski et al. 2021, arXiv 2009.14794 (favor)",
          .notes = "At most d_dot associations can be told apart.",
          .bounded_by_rank = true,
          .order_free = true,
          .parts = {feature_map("elu1"), key_norm("none"),
                    read_norm("attention", {"none", "attention", "layernorm"})},
          .states = {"S", "z"},
          .state = state::matrix_and_sum,
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const bool attention = m.text("read_norm") == "attention";
                return normalised_read(
                    m, read(m, q, {.key = k}, attention ? std::optional(m.read_eps()) : std::nullopt));
              },
          .published = {
              .source = "Arora et al. 2024 (Based), arXiv 2402.18668; HazyResearch/zoology@d88d6f5 "
                        "zoology/mixers/based.py",
              .set = {{"memory.feature_map", "taylor"},
                      {"model.d_key", std::int64_t{16}},
                      {"model.feature_scale", true},
                      {"model.out_deviation", "plain"}},
              .lacks = "eps 1e-12 of the denominator (here 1e-6); its authors have one head",
          }};
}

}  // namespace crosstalk::memories
