// Differential attention: softmax attention less lambda times that of a second query with second keys (Ye et al. 2024, arXiv 2410.05258).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(differential_attention) {
  return {
      .summary = "the difference of two softmax attentions",
      .does =
          "softmax attention less a share of another one, of second queries and keys: what both see cancels",
      .family = Family::keeps,
      .equation =
          "o_t = sum_j (softmax_j(q_t.k_j / sqrt(d)) - second_share softmax_j(q'_t.k'_j / sqrt(d))) v_j",
      .laws =
          "q' = W x + b, x the token that asks, k' = W' token + b', second_share = e^(a.b) - e^(a'.b') + 0.8 - 0.6 e^(-0.3 l) in layer l, from 0",
      .source = "Ye et al. 2024, arXiv 2410.05258",
      .notes =
          "a, b, a', b' in R^d are those of all heads. In the retrieval model x is the query's embedding.",
      .order_free = true,
      .flops = flops::weights<12>,
      .inputs = {{.name = "second_query", .per = Per::key, .symbol = "q'", .open = Open{0}},
                 {.name = "second_key", .per = Per::key, .symbol = "k'", .open = Open{0}},
                 {.name = "second_share",
                  .per = Per::other,
                  .shape = "[1]",
                  .open = Open{0},
                  .range = {0.05, 0.95}}},
      .projection_init = ProjectionInit::xavier,
      .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t T) { return T * (2 * K + V); },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto q2 = m.input("second_query", [&] { return m.asking("second_query", m.K); });
            const auto k2 = m.input("second_key", [&] { return m.token("second_key", m.K); });
            const auto lambda = m.input("second_share", [&] {
              const auto vector = [&](const char* name) {
                return m.parameter(name, {1, m.K}, Init::normal(0.1));
              };
              const auto power = [&](const char* a, const char* b) {
                return exp(fold(vector(a) * vector(b), {1, 1, 1, 1}));
              };
              const double layer =
                  m.options.has("model.layers")
                      ? m.depth() * static_cast<double>(m.options.get_int("model.layers") - 1)
                      : 0;
              return (0.8 - 0.6 * std::exp(-0.3 * layer)) +
                     (power("lambda_q1", "lambda_k1") - power("lambda_q2", "lambda_k2"));
            });
            const Attention softmax{.scale = m.scale()};
            return m.mix(attend(m, q, k, softmax) - lambda * attend(m, q2, k2, softmax));
          },
      .published = {.source = "; microsoft/unilm@3aca927f Diff-Transformer/multihead_diffattn.py",
                    .settings = "rotary=true, biases=-second_query -second_key, out_norm=rms, "
                                "out_norm_gain=shared",
                    .expand_k = 0.5,
                    .parameters = 16480,
                    .lacks = {{"positions of the second queries and keys", "they ask for content alone"},
                              {"the factor 0.2 + 0.6 e^(-0.3 l) behind its norm",
                               "what is read starts larger in every layer"}}}};
}
