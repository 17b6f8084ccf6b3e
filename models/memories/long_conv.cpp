// BaseConv with a long convolution: what a channel is convolved to, gated by the token, with a filter that a small network makes
// of the distance: o_t = gate_t * sum_s h_s v_{t-s} (Arora et al. 2023, arXiv 2312.04927).
// In C++: it is a convolution with a filter as long as the sequence, and a law is a step of one token.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"
#include "models/parts/implicit_filter.h"

CROSSTALK_MEMORY(long_conv) {
  return {
      .summary = "a gated convolution as long as the sequence, its filter a small network of the distance",
      .does =
          "a causal convolution as long as the sequence, gated by the token (BaseConv with a long filter)",
      .family = Family::own_law,
      .equation =
          "o_t = gate_t * sum_{s <= t} h_s * v_{t-s}, h_s = W_out relu(W_in z_s + b_in) + b_out, z_s = (s / "
          "(length - 1), cos(a), -sin(a)), a = 2e-4 pi s / length",
      .laws = "gate = W x + b, x the token that asks",
      .source = "Arora et al. 2023, arXiv 2312.04927",
      .notes =
          "All heads have the same filter. There are no keys and no queries. W_in has the columns filter_time, filter_cos, filter_sin, b_in is "
          "filter_bias.",
      .flops = [](const Options&, double, double V, double T, double) { return 6 * V * T * T; },
      .options = filter_options(),
      .inputs = {{.name = "gate", .per = Per::value},
                 {.name = "filter_time", .per = Per::other, .shape = "[F]"},
                 {.name = "filter_cos", .per = Per::other, .shape = "[F]"},
                 {.name = "filter_sin", .per = Per::other, .shape = "[F]"},
                 {.name = "filter_bias", .per = Per::other, .shape = "[F]"},
                 {.name = "filter_out", .per = Per::other, .shape = "[V,F]"},
                 {.name = "filter_out_bias", .per = Per::other, .shape = "[V]"}},
      .states = {},
      .own_queries = false,
      .own_keys = false,
      .own_token = true,
      .keeps_keys = true,
      .state = [](const Options&, std::int64_t, std::int64_t V, std::int64_t T) { return T * V; },
      .letters = {{'F', "units"}},
      .build =
          [](auto& m) {
            const int units = m.integer("units");
            const auto hidden = map(MapKind::relu, filter_features(m, units, m.integer("length")));
            const double scale = 1 / std::sqrt(static_cast<double>(units));
            const auto weights = m.input("filter_out", [&] {
              return m.parameter("filter_out", {m.V, units}, Init::uniform(scale));
            });
            const auto bias = m.input("filter_out_bias", [&] {
              return m.parameter("filter_out_bias", {1, m.V}, Init::uniform(scale));
            });
            const auto y = convolved(m, m.values(), filter_layer(hidden, weights, bias));
            return m.input("gate", [&] { return m.asking("gate", m.V); }) * m.at_queries(y);
          },
      .published =
          {.source = "; HazyResearch/zoology@d88d6f5 zoology/mixers/base_conv.py",
           .lacks = {
               {"a convolution of the layer's input itself, which it adds to what is read, without projections of values and of the output",
                "more weights, and no path past the layer but the block's"},
               {"filters that start as N(0, 0.02^2)", "filters start larger here"}}}};
}
