// Softmax attention with a sink: a logit of its own for every head takes a share of each row and reads nothing, so that a
// query may read little (Xiao et al. 2024, arXiv 2309.17453; as a learned logit: gpt-oss, OpenAI 2025, arXiv 2508.10925).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(attention_sink) {
  return {
      .summary = "softmax attention that may read nothing: a learned logit a head stands in the denominator",
      .does = "softmax attention with a learned extra logit, so that a query can retrieve little",
      .family = Family::keeps,
      .equation =
          "o = sum_t e^{s_t} v_t / (e^{sink_h} + sum_t e^{s_t}), s_t = q.k_t / sqrt(d_key), over the tokens seen",
      .source = "Xiao et al. 2024, arXiv 2309.17453; learned as in gpt-oss, OpenAI 2025, arXiv 2508.10925",
      .notes = "The sink starts at 0, which is softmax with 1 added to the denominator.",
      .order_free = true,
      .inputs = {{.name = "sink", .per = Per::head, .symbol = "sink_h", .open = Open{-30}}},
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto sink = m.input("sink", [&] { return m.parameter("sink", {m.H}, Init::constant(0)); });
            return m.mix(attend(m, q, k, {.scale = m.scale()}, {.sink = sink}));
          },
      .published = {.source = "OpenAI 2025, arXiv 2508.10925; openai/gpt-oss@0568dfc gpt_oss/torch/model.py",
                    .settings = "rotary=true, rotary_base=1.5e5, biases=query key value output",
                    .lacks = {{"YaRN, and a window of 128 tokens in every other layer",
                               "the same up to 128 tokens; of longer sequences every layer here sees all"}}}};
}
