// Softmax attention with linear biases: logits - slope_h (t - j), slope_h = 2^{-8 (h + 1) / H} (Press, Smith,
// Lewis 2022, arXiv 2108.12409).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(alibi) {
  return {
      .summary = "softmax attention that prefers what is recent, at a constant slope a head",
      .does = "softmax attention with a linear penalty on distance in the logits, one slope a head",
      .family = Family::keeps,
      .equation = "o_t = sum_j softmax_j(q_t.k_j / sqrt(d) - slope_h (t - j)) v_j",
      .laws = "slope_h = 2^(-8 (h + 1) / H)",
      .source = "Press, Smith, Lewis 2022, arXiv 2108.12409",
      .inputs =
          {{.name = "slope", .per = Per::head, .symbol = "slope_h", .open = Open{0}, .range = {0.05, 0.95}}},
      .projection_init = ProjectionInit::xavier,
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const int heads = m.H;
        const auto slope = m.input("slope", [&] {
          return m.constant([heads](int h) { return std::exp2(-8.0 * (h + 1) / heads); });
        });
        return m.mix(attend(m, q, k, {.scale = m.scale()}, {}, slope));
      }};
}
