// Momentum DeltaNet (Huang et al. 2026, arXiv 2605.05838): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::momentum_deltanet_test {

CROSSTALK_START(momentum_deltanet, rate_from, "0", 0.4119, 0);
CROSSTALK_INPUT_START(momentum_deltanet, log_mu, 10.18);

Sequence sequence(int T, double log_mu) {
  Sequence s = random_sequence(no_options(), T, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(T, 1, -1, 0, 2), s.in["beta"] = uniform_rows(T, 1, 0, 1, 3);
  s.in["log_mu"] = constant_rows(T, 1, log_mu), s.in["eta"] = constant_rows(T, 1, 1);
  return s;
}

/// Rows as unit() leaves them.
Matrix shortened(Matrix rows) {
  for (Vector& row : rows) row = scaled(1 / std::sqrt(dot(row, row) + 1e-6), row);
  return rows;
}

TEST(MomentumDeltanetOracle, WithoutMomentumIsGatedDelta) {
  Sequence s = sequence(6, -60);
  const Matrix o = read("momentum_deltanet", s);
  s.k = shortened(s.k), s.q = shortened(s.q);
  expect_close(o, read("gated_delta", s));
}

// A write goes on while the key says nothing: 1, 3/2, 7/4 of it with a momentum of 1/2.
TEST(MomentumDeltanetOracle, MomentumGoesOn) {
  Sequence s = sequence(3, std::log(0.5));
  s.k = {unit(4, 0), Vector(4, 0), Vector(4, 0)}, s.q = Matrix(3, unit(4, 0));
  s.in["log_decay"] = constant_rows(3, 1, 0), s.in["beta"] = constant_rows(3, 1, 1);
  const Vector v = scaled(1 / (1 + 1e-6), s.v[0]);
  expect_close(read("momentum_deltanet", s), Matrix{v, scaled(1.5, v), scaled(1.75, v)});
}

// The state turns: with a momentum and no decay what is held swings beyond the value, and comes back.
TEST(MomentumDeltanetOracle, OfOneKeyItSwings) {
  Sequence s = sequence(12, std::log(0.9));
  s.k = s.q = Matrix(12, unit(4, 0)), s.v = Matrix(12, Vector(3, 1));
  s.in["log_decay"] = constant_rows(12, 1, 0), s.in["beta"] = constant_rows(12, 1, 0.5);
  const Matrix o = read("momentum_deltanet", s);
  double most = 0, least = 2;
  for (const Vector& row : o) most = std::max(most, row[0]);
  for (std::size_t t = 4; t < 12; ++t) least = std::min(least, o[t][0]);
  EXPECT_GT(most, 1.2);
  EXPECT_LT(least, 0.8);
}

TEST(MomentumDeltanetOracle, TheCorrectionMovesTheQuery) {
  Sequence s = sequence(5, -0.7);
  s.in["correction"] = {{0.3}};
  const Matrix o = read("momentum_deltanet", s);
  for (std::size_t t = 0; t < 5; ++t) s.q[t] = plus(s.q[t], -0.3, s.k[t]);
  s.in.erase("correction");
  expect_close(read("momentum_deltanet", s), o);
}

}  // namespace crosstalk::checks::momentum_deltanet_test
