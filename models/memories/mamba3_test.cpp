// Mamba-3 (2026, arXiv 2603.15569): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mamba3_test {

CROSSTALK_HALF_LIFE(mamba3, 49.003);
CROSSTALK_START(mamba3, rate, "softplus", 93.4, 0);

Sequence plain(std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, seed);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, seed + 1), s.in["step"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["mix"] = constant_rows(6, 1, 1), s.in["angle"] = zeros(6, 4);
  s.in["k_bias"] = zeros(1, 4), s.in["q_bias"] = zeros(1, 4);
  return s;
}

// A half turn a token changes the sign of what was held: parity.
TEST(Mamba3Oracle, AHalfTurnFlipsTheSign) {
  Sequence s = plain(2);
  s.in["log_decay"] = zeros(6, 1), s.in["step"] = zeros(6, 1), s.in["step"][0] = {1};
  s.k = s.q = Matrix(6, unit(4, 0)), s.v[0] = {1, 2, 3};
  for (const int t : {2, 3, 5}) s.in["angle"][static_cast<std::size_t>(t)][0] = std::acos(-1.0);
  const Matrix o = read("mamba3", s);
  const int signs[] = {1, 1, -1, 1, 1, -1};
  for (std::size_t t = 0; t < 6; ++t) expect_close(o[t], scaled(signs[t], s.v[0]));
}

TEST(Mamba3Oracle, AverageWritesSplitATokenOverTwo) {
  Sequence s = plain(3);
  s.in["log_decay"] = zeros(6, 1), s.in["step"] = constant_rows(6, 1, 1),
  s.in["mix"] = constant_rows(6, 1, 0.5);
  s.k = s.q = Matrix(6, unit(4, 1));
  const Matrix o = read("mamba3", s);
  expect_close(o[0], scaled(0.5, s.v[0]));
  expect_close(o[1], plus(s.v[0], 0.5, s.v[1]));
}

}  // namespace crosstalk::checks::mamba3_test
