// MesaNet (von Oswald et al. 2025, arXiv 2506.05233): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mesa_test {
namespace {

CROSSTALK_HALF_LIFE(mesa, 0.9962);

Sequence sequence(int T, int K, int V, std::uint64_t seed, double ridge) {
  Sequence s = random_sequence(no_options(), T, K, V, seed);
  s.in["beta"] = constant_rows(T, 1, 1), s.in["log_decay"] = constant_rows(T, 1, 0);
  s.in["ridge"] = constant_rows(1, K, ridge);
  return s;
}

// W_t = W_{t-1} + (v - W_{t-1} k) (P k)^T / (1 + k.P k), P_t = P - P k k^T P / (1 + k.P k), P_0 = 1 / ridge.
TEST(MesaOracle, WithoutDecayIsRecursiveLeastSquares) {
  const Sequence s = sequence(9, 4, 3, 1, 0.3);
  Matrix P = zeros(4, 4), W = zeros(3, 4), o;
  for (std::size_t c = 0; c < 4; ++c) P[c][c] = 1 / 0.3;
  for (int t = 0; t < s.T; ++t) {
    const Vector p = times(P, s.key(t));
    const double gain = 1 / (1 + dot(s.key(t), p));
    W = plus_outer(W, gain, minus(s.value(t), times(W, s.key(t))), p);
    P = plus_outer(P, -gain, p, p);
    o.push_back(times(W, s.query(t)));
  }
  expect_close(read("mesa", s), o);
}

TEST(MesaOracle, OrthonormalKeysAreRecalledUpToTheRidge) {
  Sequence s = sequence(4, 4, 3, 2, 0.25);
  for (int t = 0; t < 4; ++t)
    s.k[static_cast<std::size_t>(t)] = s.q[static_cast<std::size_t>(t)] = unit(4, t);
  expect_close(read("mesa", s), times(1 / 1.25, s.v));
}

// Keys that are not orthogonal, as many as there are: linear attention mixes them up, the regression does
// not.
TEST(MesaOracle, IndependentKeysAreRecalledAsTheRidgeVanishes) {
  Sequence s = sequence(4, 4, 3, 3, 1e-9);
  s.q = s.k;
  for (int t = 0; t < 4; ++t) s.q[static_cast<std::size_t>(t)] = s.k[0];
  expect_close(read("mesa", s), Matrix(4, s.v[0]), 1e-6);
}

TEST(MesaOracle, UnderAHugeRidgeIsLinearAttentionDividedByIt) {
  Sequence s = sequence(6, 4, 3, 4, 1e10);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, 5);
  expect_close(times(1e10, read("mesa", s)), read("simple_gla", s), 1e-7);
}

}  // namespace
}  // namespace crosstalk::checks::mesa_test
