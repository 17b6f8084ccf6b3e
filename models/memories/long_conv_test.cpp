// BaseConv with a long convolution (Arora et al. 2023, arXiv 2312.04927): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::long_conv_test {
namespace {

// The filter at distance s, channel after channel.
Vector filter(const Sequence& s, int distance) {
  const double length = s.integer("length", 256), a = 2e-4 * std::acos(-1.0) * distance / length;
  Vector h = s.row("filter_out_bias", 0);
  const std::size_t units = s.row("filter_bias", 0).size();
  for (std::size_t f = 0; f < units; ++f) {
    const double u = s.row("filter_time", 0)[f] * distance / (length - 1) +
                     s.row("filter_cos", 0)[f] * std::cos(a) - s.row("filter_sin", 0)[f] * std::sin(a) +
                     s.row("filter_bias", 0)[f];
    for (std::size_t v = 0; v < h.size(); ++v)
      h[v] += s.row("filter_out", 0)[v * units + f] * std::max(u, 0.0);
  }
  return h;
}

Matrix long_conv(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector sum(static_cast<std::size_t>(s.V), 0);
    for (int j = 0; j <= t; ++j) sum = plus(sum, 1, elementwise(filter(s, t - j), s.value(j)));
    o.push_back(elementwise(s.row("gate", t), sum));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(long_conv, long_conv);

TEST(LongConvOracle, AConstantFilterAddsUp) {
  Sequence s = random_sequence(no_options(), 5, 1, 3, 1);
  s.in["gate"] = constant_rows(5, 3, 1);
  for (const char* name : {"filter_time", "filter_cos", "filter_sin", "filter_bias"})
    s.in[name] = zeros(1, 16);
  s.in["filter_out"] = zeros(1, 48), s.in["filter_out_bias"] = constant_rows(1, 3, 2);
  const Matrix o = read("long_conv", s);
  Vector sum(3, 0);
  for (std::size_t t = 0; t < 5; ++t) expect_close(o[t], scaled(2, sum = plus(sum, 1, s.v[t])));
}

}  // namespace
}  // namespace crosstalk::checks::long_conv_test
