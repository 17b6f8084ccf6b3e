// Softmax attention with rotary positions: logits (R_t q_t).(R_j k_j) / sqrt(d), R_t turning channels 2c, 2c + 1 by
// t base^{-2c / d} (Su et al. 2021, arXiv 2104.09864).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(rope) {
  OptionSpec base{"base", 1e4, "angles are t base^(-2c / d) for the pair c of channels", 1, 1e12};
  base.min_exclusive = true;
  return {
      .summary = "softmax attention with rotary positions",
      .does = "softmax attention with queries and keys rotated by their positions",
      .family = Family::keeps,
      .equation =
          "o_t = sum_j softmax_j((R_t q_t).(R_j k_j) / sqrt(d)) v_j, R_t turns channels 2c and 2c + 1 by t base^(-2c / d)",
      .source = "Su et al. 2021, arXiv 2104.09864",
      .notes =
          "In the retrieval model a query stands at the last token that it sees. A last channel without a partner is not turned.",
      .options = {base},
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const double at = m.number("base");
            return m.mix(attend(m, rotate(m, q, at, false), rotate(m, k, at, true), {.scale = m.scale()}));
          },
      .published = {.source = fla_layers("attn.py"), .parameters = 16384}};
}
