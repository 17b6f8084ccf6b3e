// Wall attention: softmax attention whose products fade channel by channel, logits sum_c q_tc k_jc e^{P_tc - P_jc} / sqrt(d), P
// the sum of log f up to a token (flash-linear-attention, fla/layers/wall_attn.py).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(wall) {
  return {
      .summary = "softmax attention with a data-dependent decay of every channel of query times key",
      .does = "softmax attention with a data-dependent decay of each key channel inside the logits",
      .family = Family::keeps,
      .equation = "o_t = sum_j softmax_j(sum_c q_tc k_jc exp(sum_{s=j+1..t} log f_sc) / sqrt(d)) v_j",
      .laws = "f_s = sigmoid(W token + b), b = 8 at the start",
      .source = "fla-org/flash-linear-attention@bc3b101d fla/layers/wall_attn.py",
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log f", .range = {-1.5, -0.01, -20}}},
      .projection_init = ProjectionInit::xavier,
      .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t T) { return T * (2 * K + V); },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto g =
                m.input("log_decay", [&] { return log_sigmoid(m.token("forget", m.K, Init::constant(8))); });
            m.watch_decay(g, true);
            const auto faded = read_weights(m, q, {.key = k, .log_decay = g});
            m.note("score_key", k);
            m.note("score_query", q);
            const decltype(k) none{};  // no products but the faded ones
            return m.mix(attend(m, none, none, {}, {.extra = m.scale() * faded}));
          },
      .published = {.source = "fla-org/flash-linear-attention@bc3b101d fla/layers/wall_attn.py",
                    .parameters = 20544}};
}
