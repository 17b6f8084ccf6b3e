// Memory Mosaics: kernel regression on past keys that are leaky averages, k_t = unit(sum_{j<=t} e^{g (t - j)} k'_j), made for
// queries alike (Zhang et al. 2024, arXiv 2405.06394).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(memory_mosaics) {
  return {
      .summary = "Gaussian kernel regression on leaky averages of keys",
      .does = "softmax attention whose keys are leaky averages over time",
      .family = Family::keeps,
      .equation =
          "o_t = sum_{j<t} softmax_j(c a_t.b_j) v_j, b_j = unit(sum_{i<=j} e^{g (j - i)} k_i), a_t = unit(q_t + sum_{i<t} e^{g (t - i)} k_i)",
      .laws = "c and g < 0 learned for every head",
      .source = "Zhang et al. 2024, arXiv 2405.06394",
      .notes =
          "A token does not see itself, and q = k in the paper. c starts at e^2, -g at 0.5 .. 5 over the heads, as in its code. In the retrieval "
          "model a query comes after the last token that it sees. Values are taken as they are: the paper's look at the value that follows belongs "
          "to a model whose tokens are not whole associations.",
      .flops =
          [](const Options&, double K, double, double T, double Q) {
            return 12 * K * T * Q + 6 * K * T * T;  // averages of keys, where tokens and queries stand
          },
      .inputs = {{.name = "log_decay",
                  .per = Per::head,
                  .symbol = "g",
                  .open = Open{-30},
                  .range = {-1.5, -0.01, -20}},
                 {.name = "sharpness", .per = Per::head, .symbol = "c"}},
      .own_token = true,
      .projection_init = ProjectionInit::xavier,
      .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t T) { return T * (K + V) + K; },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto g = m.input("log_decay", [&] {
              const int heads = m.H;
              const auto leak =
                  m.constant([heads](int h) { return heads == 1 ? 0.5 : 0.5 + 4.5 * h / (heads - 1); });
              return -(leak * exp(m.parameter("leak", {m.H}, Init::constant(0))));
            });
            const auto c = m.input(
                "sharpness", [&] { return exp(m.parameter("log_sharpness", {m.H}, Init::constant(2))); });
            const auto unit_rows = [&](auto x) {
              return decltype(x){&m.graph, normalize(m.graph, RowNorm::l2, m.norm_eps(), x.variable)};
            };
            // Weights e^{g (t - j)}: scores of 0, faded.
            Attention fading{.normalised = false, .scale = 0};
            const auto b = weighted(attend(m, k, k, fading, {.log_decay = g, .between_tokens = true}), k);
            fading.strict = m.at_tokens();
            auto before = weighted(attend(m, q, k, fading, {.log_decay = g}), k);
            if (!m.at_tokens()) before = exp(g) * before;  // the query comes one token later
            const double scale = m.learned() ? 1 : m.scale();
            return m.mix(attend(m, c * unit_rows(q + before), unit_rows(b),
                                {.scale = scale, .strict = m.at_tokens()}));
          },
      .published =
          {.source = "; facebookresearch/MemoryMosaics@1911581 nanoMosaics/mosaic_model.py",
           .lacks = {
               {"values that look at the token that follows, keys that are the queries, and persistent memory in place of the MLP",
                "another block: results of its paper are not those of this layer"},
               {"biases of its maps", "fewer weights"}}}};
}
