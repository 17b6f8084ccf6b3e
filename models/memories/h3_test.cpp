// H3 (Fu et al. 2022, arXiv 2212.14052): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "models/testing/memory_test.h"

namespace crosstalk::checks::h3_test {
namespace {

// A complex state for every wave, token after token.
Matrix h3(const Sequence& s) {
  using Number = std::complex<double>;
  const auto V = static_cast<std::size_t>(s.V), K = static_cast<std::size_t>(s.K);
  const std::size_t waves = s.row("rate", 0).size();
  std::vector<Number> states(waves * V * K, 0);
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    const Vector q = s.query(t);
    Vector sum(V, 0);
    const bool strict = s.flag("strict");
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::size_t n = i / V / K, v = i / K % V, c = i % K;
      const Number turn = std::exp(Number(-s.row("rate", 0)[n], s.row("angle", 0)[n])),
                   read(s.row("read", 0)[n], s.row("read_imag", 0)[n]);
      states[i] *= turn;
      if (!strict) states[i] += s.value(t)[v] * s.key(t)[c];
      sum[v] += 2 * (read * states[i]).real() * q[c];
      if (strict) states[i] += s.value(t)[v] * s.key(t)[c];
    }
    o.push_back(strict ? sum : plus(sum, s.number("skip") * dot(q, s.key(t)), s.value(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(h3, h3);
CROSSTALK_GATE_LAW(h3, rate, std::exp(x("log_step")) / 2);
CROSSTALK_GATE_LAW(h3, angle, std::exp(x("log_step") + x("log_angle")));

TEST(H3Oracle, WithoutRatesItIsLinearAttention) {
  const Options one = option("waves", 1);
  Sequence s = random_sequence(one, 6, 4, 3, 1);
  s.in["rate"] = s.in["angle"] = s.in["read_imag"] = s.in["skip"] = zeros(1, 1);
  s.in["read"] = {{0.5}};
  expect_close(read("h3", s), read("linear_attention", with_options(s, no_options())));
}

}  // namespace
}  // namespace crosstalk::checks::h3_test
