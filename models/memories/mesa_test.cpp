// MesaNet (von Oswald et al. 2025, arXiv 2506.05233): its oracle, a ridge regression by Cholesky, and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::mesa_test {
namespace {

// X with X A = B, A symmetric and positive: A = L L^T, then each row of B forward and back.
Matrix solved(Matrix a, Matrix b) {
  const std::size_t n = a.size();
  for (std::size_t j = 0; j < n; ++j) {
    for (std::size_t i = j; i < n; ++i) {
      for (std::size_t l = 0; l < j; ++l) a[i][j] -= a[i][l] * a[j][l];
      a[i][j] = i == j ? std::sqrt(a[j][j]) : a[i][j] / a[j][j];
    }
  }
  for (Vector& x : b) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t l = 0; l < i; ++l) x[i] -= a[i][l] * x[l];
      x[i] /= a[i][i];
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t l = i + 1; l < n; ++l) x[i] -= a[l][i] * x[l];
      x[i] /= a[i][i];
    }
  }
  return b;
}

// The weights W that minimise sum_j weight_j |v_j - W k_j|^2 + sum_c ridge_c |W_c|^2, weight_j = beta_j times
// the decays behind j, from normal equations over all tokens so far; then o = W q.
Matrix mesa(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Matrix keys = zeros(s.K, s.K), both = zeros(s.V, s.K);
    for (int c = 0; c < s.K; ++c)
      keys[static_cast<std::size_t>(c)][static_cast<std::size_t>(c)] =
          s.row("ridge", 0)[static_cast<std::size_t>(c)];
    double faded = 0;
    for (int j = t; j >= 0; --j) {
      const double weight = s.number("beta", j) * std::exp(faded);
      keys = plus_outer(keys, weight, s.key(j), s.key(j));
      both = plus_outer(both, weight, s.value(j), s.key(j));
      faded += s.number("log_decay", j);
    }
    o.push_back(times(solved(keys, both), s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(mesa, mesa);
CROSSTALK_GATE_LAW(mesa, log_decay, log_sigmoid(x("decay")));
CROSSTALK_GATE_LAW(mesa, beta, sigmoid(x("beta")));
CROSSTALK_GATE_LAW(mesa, ridge, 0.25 + softplus(x("ridge")));
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
