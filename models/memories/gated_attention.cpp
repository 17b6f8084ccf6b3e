// Softmax attention whose reads are gated, channel by channel, by what asks: o = sigmoid(W x) * sum_t softmax_t v_t
// (Qiu et al. 2025, arXiv 2505.06708).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gated_attention) {
  return {.summary = "softmax attention with a gate on every channel that is read",
          .does = "softmax attention with a gate of the querying token on the retrieved value",
          .family = Family::keeps,
          .equation = "o = gate * sum_t softmax_t(q.k_t / sqrt(d_key)) v_t",
          .laws = "gate = sigmoid(W x + b), x the token that asks",
          .source = "Qiu et al. 2025, arXiv 2505.06708",
          .notes = "In the retrieval model x is the query's embedding.",
          .order_free = true,
          .inputs = {{.name = "gate", .per = Per::value, .range = {0.05, 0.95}}},
          .projection_init = ProjectionInit::xavier,
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto gate = m.input("gate", [&] { return sigmoid(m.asking("gate", m.V)); });
                return gate * m.mix(attend(m, q, k, {.scale = m.scale()}));
              },
          .published = {
              .source = "; qiuzh20/gated_attention@df42212",
              .settings = "qk_norm=shared, rotary=true, biases=-gate",
              .lacks = {{"what its modelling code has beside the layer, which was not read", "unknown"}}}};
}
