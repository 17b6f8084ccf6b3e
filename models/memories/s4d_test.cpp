// S4D (Gu, Gupta, Goel, Re 2022, arXiv 2206.11893): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::s4d_test {

Sequence sequence(int T, int K, int V, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), T, K, V, seed);
  s.in["step"] = uniform_rows(1, V, 0.1, 1, seed + 1);
  s.in["log_rate"] = uniform_rows(1, V * K, -1, 0.5, seed + 2);
  s.in["angle"] = s.in["read_imag"] = constant_rows(1, V * K, 0);
  s.in["read"] = constant_rows(1, V * K, 0.5);
  return s;
}

TEST(S4dOracle, WithoutAnglesIsMambaWithAConstantStep) {
  Sequence s = sequence(6, 4, 3, 1);
  const Matrix o = read("s4d", s);
  s.in["step"] = Matrix(6, s.in["step"][0]);
  expect_close(o, read("mamba1", s));
}

// One channel of one number, nothing fades, a quarter turn a token: what was written comes back after four
// tokens.
TEST(S4dOracle, TurnsWithoutFading) {
  Sequence s = sequence(5, 1, 1, 2);
  s.k = s.q = constant_rows(5, 1, 1), s.v = {{3}, {0}, {0}, {0}, {0}};
  s.in["step"] = {{1}}, s.in["log_rate"] = {{-1000}}, s.in["angle"] = {{std::acos(0.0)}};
  expect_close(read("s4d", s), Matrix{{3}, {0}, {-3}, {0}, {3}});
}

}  // namespace crosstalk::checks::s4d_test
