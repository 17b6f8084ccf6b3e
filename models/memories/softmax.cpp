// Softmax attention: o = sum_t softmax_t(q.k_t / sqrt(d)) v_t (Vaswani et al. 2017; baseline of Schlag et
// al. 2021).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(softmax) {
  return {
      .summary = "softmax attention: keeps every key and value",
      .does = "softmax attention over all keys and values",
      .family = Family::keeps,
      .equation = "o = sum_t softmax_t(q.k_t / sqrt(d_key)) v_t over the tokens seen",
      .source =
          "Vaswani et al. 2017, arXiv 1706.03762; as in Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174",
      .notes =
          "No feature map bounds it; its state is the cache of all keys and values. The projections of keys and queries start Xavier-uniform.",
      .order_free = true,
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            return m.mix(attend(m, q, k, {.scale = m.scale()}));
          },
      .published = {
          .source =
              "Arora et al. 2023 (Zoology), arXiv 2312.04927; HazyResearch/zoology@d88d6f5 zoology/mixers/attention.py",
          .settings = "biases=query key value output",
          .lacks = {{"dropout 0.1 of the weights, and learned positions",
                     "studies set them: model.weight_dropout, model.positions"}}}};
}
