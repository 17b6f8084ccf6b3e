// Hyena (Poli et al. 2023, arXiv 2302.10866): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::hyena_test {
namespace {

Vector layer(const Vector& weights, const Vector& x, const Vector& bias) {
  Vector y;
  for (std::size_t i = 0; i < weights.size() / x.size(); ++i) {
    double sum = bias.empty() ? 0 : bias[i];
    for (std::size_t j = 0; j < x.size(); ++j) sum += weights[i * x.size() + j] * x[j];
    y.push_back(sum);
  }
  return y;
}

// The filter at distance s, channel after channel.
Vector filter(const Sequence& s, int distance) {
  const double length = s.integer("length", 256), time = distance / (length - 1),
               a = 2e-4 * std::acos(-1.0) * distance / length;
  const auto row = [&](const char* name) { return s.row(name, 0); };
  const auto wave = [&](Vector x) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(row("frequency")[i] * x[i]);
    return x;
  };
  Vector u = plus(row("filter_bias"), time, row("filter_time"));
  u = wave(plus(plus(u, std::cos(a), row("filter_cos")), -std::sin(a), row("filter_sin")));
  u = wave(layer(row("filter_1"), u, row("filter_1_bias")));
  u = wave(layer(row("filter_2"), u, row("filter_2_bias")));
  Vector h = layer(row("filter_out"), u, {});
  for (std::size_t v = 0; v < h.size(); ++v) h[v] *= std::exp(-time * row("window")[v]);
  return h;
}

Matrix hyena(const Sequence& s) {
  Matrix o;
  const auto gated = [&](int t) { return elementwise(s.row("pre_gate", t), s.value(t)); };
  for (int t = 0; t < s.T; ++t) {
    Vector sum = elementwise(s.row("skip", 0), gated(t));
    for (int j = 0; j <= t; ++j) sum = plus(sum, 1, elementwise(filter(s, t - j), gated(j)));
    o.push_back(elementwise(s.row("post_gate", t), sum));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(hyena, hyena);

TEST(HyenaOracle, WithoutAFilterOnlyTheOwnTokenIsRead) {
  Sequence s = random_sequence(no_options(), 5, 1, 3, 1);
  for (const char* name :
       {"filter_time", "filter_cos", "filter_sin", "filter_bias", "filter_1_bias", "filter_2_bias"})
    s.in[name] = zeros(1, 16);
  s.in["frequency"] = constant_rows(1, 16, 1);
  s.in["filter_1"] = s.in["filter_2"] = zeros(1, 256), s.in["filter_out"] = zeros(1, 48);
  s.in["window"] = s.in["skip"] = constant_rows(1, 3, 2);
  s.in["pre_gate"] = constant_rows(5, 3, 3), s.in["post_gate"] = constant_rows(5, 3, 0.5);
  const Matrix o = read("hyena", s);
  for (std::size_t t = 0; t < 5; ++t) expect_close(o[t], scaled(3, s.v[t]));
}

}  // namespace
}  // namespace crosstalk::checks::hyena_test
