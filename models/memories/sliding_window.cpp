// Softmax attention over the last tokens: o_t = sum_{t - window < j <= t} softmax_j(q_t.k_j / sqrt(d)) v_j
// (Beltagy, Peters, Cohan 2020, arXiv 2004.05150).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory sliding_window() {
  return {
      .name = "sliding_window",
      .summary = "softmax attention over the last tokens only",
      .does = "softmax attention over the last tokens only",
      .family = Family::keeps,
      .equation = "o_t = sum_j softmax_j(q_t.k_j / sqrt(d)) v_j over t - window < j <= t",
      .source = "Beltagy, Peters, Cohan 2020, arXiv 2004.05150",
      .options = {{.name = "window",
                   .default_value = 16,
                   .help = "tokens that are kept, the newest counted",
                   .min = 1,
                   .max = 1 << 20,
                   .tried = {1, 3}}},
      .hands_on_window = true,
      .projection_init = ProjectionInit::xavier,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t T) { return std::min(T, o.get_int("memory.window")) * (K + V); },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            return attend_window(m, q, k, {.scale = m.scale(), .window = m.integer("window")});
          },
      .published =
          {
              .source =
                  "Arora et al. 2024 (Based), arXiv 2402.18668; HazyResearch/zoology@d88d6f5 zoology/mixers/slide_attn.py",
              .set = {{"model.biases", "query key value output"}},
              .lacks =
                  {{"a window that counts the own token beside its size: there a window of w sees w + 1 tokens",
                    "memory.window one larger is the same"}},
          }};
}

}  // namespace crosstalk::memories
