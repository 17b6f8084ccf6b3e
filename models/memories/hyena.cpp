// Hyena of order two: values gated before and after a convolution as long as the sequence, whose filter is a network of the
// distance times a window that fades: o_t = post_t * (skip * u_t + sum_s h_s u_{t-s}), u = pre * v (Poli et al. 2023, arXiv
// 2302.10866).
// In C++: it is a convolution with a filter as long as the sequence, and a law is a step of one token.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"
#include "models/parts/implicit_filter.h"

namespace crosstalk::memories {
namespace {

/// Rates from log(100) / 1.5 to log(100) / 0.3 over the channels: how fast the window fades over `length`.
std::vector<double> windows(int V) {
  std::vector<double> rates;
  const double low = std::log(100.0) / 1.5, high = std::log(100.0) / 0.3;
  for (int v = 0; v < V; ++v) rates.push_back(V == 1 ? low : low + (high - low) * v / (V - 1));
  return rates;
}

}  // namespace
}  // namespace crosstalk::memories

CROSSTALK_MEMORY(hyena) {
  return {
      .summary =
          "values gated before and after a convolution as long as the sequence, with an implicit filter",
      .does = "a causal convolution as long as the sequence between two gates of the tokens (Hyena)",
      .family = Family::own_law,
      .equation =
          "o_t = post_t * (skip * u_t + sum_{s <= t} h_s * u_{t-s}), u = pre * v, h_s = e^{-window s / (length - 1)} * W_out sin(f (W_2 sin(f (W_1 "
          "sin(f (W_in z_s + b_in)) + b_1)) + b_2)), z_s as in long_conv",
      .laws = "pre = W token + b, post = W' x + b', x the token that asks",
      .source = "Poli et al. 2023, arXiv 2302.10866",
      .notes =
          "All heads have the same filter. There are no keys and no queries. W_in has the columns filter_time, filter_cos, filter_sin, b_in is "
          "filter_bias. The rates of the window are learned; in its code they are fixed.",
      .flops = [](const Options&, double, double V, double T, double) { return 6 * V * T * T; },
      .options = filter_options(),
      .inputs =
          {{.name = "pre_gate", .per = Per::value, .symbol = "pre"},
           {.name = "post_gate", .per = Per::value, .symbol = "post"},
           {.name = "filter_time", .per = Per::other, .shape = "[F]"},
           {.name = "filter_cos", .per = Per::other, .shape = "[F]"},
           {.name = "filter_sin", .per = Per::other, .shape = "[F]"},
           {.name = "filter_bias", .per = Per::other, .shape = "[F]"},
           {.name = "frequency", .per = Per::other, .shape = "[F]", .symbol = "f", .range = {0.5, 1.5}},
           {.name = "filter_1", .per = Per::other, .shape = "[F,F]", .symbol = "W_1", .range = {-0.5, 0.5}},
           {.name = "filter_1_bias", .per = Per::other, .shape = "[F]", .symbol = "b_1"},
           {.name = "filter_2", .per = Per::other, .shape = "[F,F]", .symbol = "W_2", .range = {-0.5, 0.5}},
           {.name = "filter_2_bias", .per = Per::other, .shape = "[F]", .symbol = "b_2"},
           {.name = "filter_out",
            .per = Per::other,
            .shape = "[V,F]",
            .symbol = "W_out",
            .range = {-0.5, 0.5}},
           {.name = "window", .per = Per::other, .shape = "[V]", .range = {0.5, 15}},
           {.name = "skip", .per = Per::other, .shape = "[V]"}},
      .states = {},
      .own_queries = false,
      .own_keys = false,
      .own_token = true,
      .keeps_keys = true,
      .state = [](const Options&, std::int64_t, std::int64_t V, std::int64_t T) { return T * V; },
      .letters = {{'F', "units"}},
      .build =
          [](auto& m) {
            const int units = m.integer("units"), length = m.integer("length");
            const double scale = 1 / std::sqrt(static_cast<double>(units));
            const auto given = [&](const char* name, int rows, int columns, const Init& init) {
              return m.input(name, [&] { return m.parameter(name, {rows, columns}, init); });
            };
            const auto f = given("frequency", 1, units, Init::constant(1));
            const auto wave = [&](auto x) { return map(MapKind::sine, f * x); };
            auto hidden = wave(filter_features(m, units, length));
            const auto w1 = given("filter_1", units, units, Init::uniform(scale));
            hidden = wave(filter_layer(hidden, w1, given("filter_1_bias", 1, units, Init::uniform(scale))));
            const auto w2 = given("filter_2", units, units, Init::uniform(scale));
            hidden = wave(filter_layer(hidden, w2, given("filter_2_bias", 1, units, Init::uniform(scale))));
            const auto out = filter_layer(hidden, given("filter_out", m.V, units, Init::uniform(scale)));
            const auto window = given("window", 1, m.V, Init::listed(windows(m.V)));
            const auto h = out * exp((-1.0 / (length - 1)) * distances(m) * window);
            const auto u = m.input("pre_gate", [&] { return m.token("pre_gate", m.V); }) * m.values();
            const auto y = given("skip", 1, m.V, Init::normal(1)) * u + convolved(m, u, h);
            return m.input("post_gate", [&] { return m.asking("post_gate", m.V); }) * m.at_queries(y);
          },
      .published =
          {.source = "; HazyResearch/zoology@d88d6f5 zoology/mixers/hyena.py",
           .settings = "short_conv=v, short_conv_width=3, short_conv_bias=true, memory.units=64",
           .lacks = {
               {"the short convolutions of its gates, and a window that is not learned",
                "gates see one token: fewer weights than in Zoology's figures"},
               {"biases of its maps of values and of the output, learned positions, and filters that start as N(0, 0.02^2)",
                "filters start larger here, and the layer has a few weights fewer"}}}};
}
