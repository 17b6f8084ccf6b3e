// Delta rule (Schlag et al. 2021, arXiv 2102.11174; Yang et al. 2024, arXiv 2406.06484): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::delta_test {

// Unit keys, all betas alike; every token reads its own key after the write.
Sequence written(int T, int K, int V, double beta, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), T, K, V, seed);
  s.k = unit_rows(s.k), s.q = s.k;
  s.in["beta"] = constant_rows(T, 1, beta);
  return s;
}

TEST(DeltaOracle, UnitKeyAndBetaOneOverwriteExactly) {
  const Sequence s = written(8, 4, 3, 1, 1);
  expect_close(read("delta", s), s.v);
}

TEST(DeltaOracle, AWriteMovesTheHeldValueByBeta) {
  Sequence s = written(2, 4, 3, 0.25, 2);
  s.k[1] = s.k[0], s.q[1] = s.k[0], s.in["beta"][0] = {1};
  expect_close(read("delta", s)[1], plus(scaled(0.75, s.v[0]), 0.25, s.v[1]));
}

TEST(DeltaOracle, AKeyOfAnotherLengthMovesItByBetaTimesItsSquare) {
  Sequence s = written(1, 4, 3, 0.5, 3);
  s.k[0] = scaled(0.6, s.k[0]), s.in["s0"] = normal_rows(3, 4, 4);
  const Vector held = times(s.in["s0"], s.q[0]);  // read with the unit key
  expect_close(read("delta", s)[0], plus(scaled(1 - 0.5 * 0.36, held), 0.5 * 0.6, s.v[0]));
}

TEST(DeltaOracle, OrthogonalKeysAreNotTouchedAndBetaZeroDoesNothing) {
  Sequence s = written(3, 4, 3, 1, 5);
  s.k = {unit(4, 0), unit(4, 1), unit(4, 0)}, s.q = Matrix(3, unit(4, 0));
  s.in["beta"][2] = {0};
  expect_close(read("delta", s), Matrix(3, s.v[0]));
}

TEST(DeltaOracle, WritingTheSameAgainChangesNothing) {
  Sequence s = written(3, 4, 3, 1, 6);
  s.k[2] = s.k[1], s.v[2] = s.v[1], s.q[2] = s.q[1] = s.q[0];
  const Matrix o = read("delta", s);
  expect_close(o[2], o[1]);
}

TEST(DeltaOracle, DistinctOrthonormalKeysWithBetaOneAreTheSumRule) {
  Sequence s = written(4, 4, 3, 1, 7);
  for (int t = 0; t < 4; ++t) s.k[static_cast<std::size_t>(t)] = unit(4, t);
  s.q = normal_rows(4, 4, 8);
  expect_close(read("delta", s), read("linear_attention", s));
}

TEST(DeltaOracle, AReflectionSwapsTwoValues) {
  Sequence s = written(5, 4, 3, 2, 9);
  const Vector mirror = scaled(1 / std::sqrt(2.0), minus(unit(4, 0), unit(4, 1)));
  s.k = {unit(4, 0), unit(4, 1), mirror, mirror, mirror},
  s.q = {unit(4, 0), unit(4, 0), unit(4, 0), unit(4, 0), unit(4, 1)};
  s.in["beta"][0] = s.in["beta"][1] = {1};
  for (std::size_t t : {2, 3, 4}) s.v[t] = Vector(3, 0);
  expect_close(read("delta", s), Matrix{s.v[0], s.v[0], s.v[1], s.v[0], s.v[0]});
}

TEST(DeltaOracle, BetaTwoKeepsLengthsAndMoreDiverges) {
  Sequence s = written(200, 4, 1, 2, 10);
  s.k = Matrix(200, unit(4, 0)), s.q = s.k, s.v = constant_rows(200, 1, 0), s.in["s0"] = {Vector{1, 0, 0, 0}};
  expect_close(read("delta", s)[199], Vector{1});
  s.in["beta"] = constant_rows(200, 1, 2.5);
  EXPECT_GT(std::abs(read("delta", s)[199][0]), 1e30);
}

TEST(DeltaOracle, DenominatorsDivideInsideTheRuleToo) {
  const Options divided = option("denominator", true);
  Sequence s = random_sequence(divided, 2, 1, 1, 11);
  s.k = {{2}, {3}}, s.q = {{1}, {1}}, s.v = {{5}, {7}}, s.in["beta"] = {{0.5}, {0.5}};
  const double s1 = 0.5 * 5 * 2, z1 = 2, s2 = s1 + 0.5 * (7 - s1 * 3 / (z1 * 3)) * 3, z2 = 5;
  expect_close(read("delta", s), Matrix{{s1 / z1}, {s2 / z2}});
}

}  // namespace crosstalk::checks::delta_test
