// The theory of probes against memories written as plain sums over random keys and values.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/probe_theory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace crosstalk {
namespace {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
Matrix unit_rows(int n, int d, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  Matrix rows(static_cast<std::size_t>(n), Vector(static_cast<std::size_t>(d)));
  for (Vector& row : rows) {
    for (double& x : row) x = normal(random);
    const double length = std::sqrt(dot(row, row));
    for (double& x : row) x /= length;
  }
  return rows;
}

struct Measured {
  Vector signal, power;  ///< mean o.v and |o|^2, the oldest first
  double recall = 0;
};
/// `read` gives what is read of every key.
Measured measure(int n, int d, int sets,
                 const std::function<Matrix(const Matrix& k, const Matrix& v)>& read) {
  std::mt19937_64 random(7);
  Measured mean{Vector(static_cast<std::size_t>(n)), Vector(static_cast<std::size_t>(n))};
  for (int set = 0; set < sets; ++set) {
    const Matrix k = unit_rows(n, d, random), v = unit_rows(n, d, random), o = read(k, v);
    for (std::size_t i = 0; i < o.size(); ++i) {
      mean.signal[i] += dot(o[i], v[i]) / sets;
      mean.power[i] += dot(o[i], o[i]) / sets;
      bool right = true;
      for (std::size_t j = 0; j < v.size(); ++j)
        right = right && (j == i || dot(o[i], v[j]) < dot(o[i], v[i]));
      mean.recall += right ? 1.0 / (sets * n) : 0;
    }
  }
  return mean;
}

Matrix weighted(const Matrix& k, const Matrix& v, const std::function<double(double)>& weight,
                bool normalise) {
  Matrix o(k.size(), Vector(v[0].size(), 0));
  for (std::size_t i = 0; i < k.size(); ++i) {
    double total = 0;
    for (const Vector& other : k) total += weight(dot(k[i], other));
    for (std::size_t j = 0; j < k.size(); ++j)
      for (std::size_t c = 0; c < o[i].size(); ++c)
        o[i][c] += weight(dot(k[i], k[j])) / (normalise ? total : 1) * v[j][c];
  }
  return o;
}
Matrix delta(const Matrix& k, const Matrix& v, double beta) {
  Matrix S(v[0].size(), Vector(k[0].size(), 0)), o;
  for (std::size_t t = 0; t < k.size(); ++t)
    for (std::size_t c = 0; c < S.size(); ++c) {
      const double change = beta * (v[t][c] - dot(S[c], k[t]));
      for (std::size_t i = 0; i < k[t].size(); ++i) S[c][i] += change * k[t][i];
    }
  for (const Vector& q : k) {
    o.emplace_back();
    for (const Vector& row : S) o.back().push_back(dot(row, q));
  }
  return o;
}
double mean(const Vector& x) {
  double sum = 0;
  for (const double e : x) sum += e / static_cast<double>(x.size());
  return sum;
}

TEST(ProbeTheory, SumRule) {
  const int n = 48, d = 32;
  const Measured m = measure(n, d, 60, [](const Matrix& k, const Matrix& v) {
    return weighted(
        k, v, [](double x) { return x; }, false);
  });
  const ProbeRead want = sum_rule_read(n, d);
  EXPECT_NEAR(mean(m.signal), want.signal, 0.01);
  EXPECT_NEAR(mean(m.power), want.noise + 1, 0.02 * (want.noise + 1));
  EXPECT_NEAR(m.recall, recall(want, d, n), 0.03);
}

// The projection on the span of the keys: o = K^T (K K^T)^{-1} .. leaves d of n; many passes of the delta
// rule come to it.
TEST(ProbeTheory, LeastSquares) {
  const int n = 24, d = 8;
  const Measured m = measure(n, d, 60, [](const Matrix& k, const Matrix& v) {
    Matrix keys, values;
    for (int pass = 0; pass < 400; ++pass)
      keys.insert(keys.end(), k.begin(), k.end()), values.insert(values.end(), v.begin(), v.end());
    Matrix o = delta(keys, values, 0.05);
    o.resize(k.size());
    return o;
  });
  const ProbeRead want = least_squares_read(n, d);
  EXPECT_NEAR(mean(m.signal), want.signal, 0.02);
  EXPECT_NEAR(mean(m.power), want.noise + want.signal * want.signal, 0.02);
  EXPECT_NEAR(squared_error(want), 1 - 8.0 / 24, 1e-12);
  EXPECT_EQ(squared_error(least_squares_read(8, 8)), 0);
}

TEST(ProbeTheory, DeltaRuleForgetsTheOldest) {
  const int n = 40, d = 16;
  for (const double beta : {1.0, 0.5}) {
    const Measured m =
        measure(n, d, 400, [&](const Matrix& k, const Matrix& v) { return delta(k, v, beta); });
    const auto want = delta_rule_reads(n, d, beta);
    double right = 0;
    for (std::size_t i = 0; i < want.size(); i += 3) {
      EXPECT_NEAR(m.signal[i], want[i].signal, 0.04) << i;
      EXPECT_NEAR(m.power[i], want[i].noise + want[i].signal * want[i].signal, 0.1) << i;
    }
    for (const ProbeRead& read : want) right += recall(read, d, n) / n;
    EXPECT_NEAR(m.recall, right, 0.04);
  }
}

TEST(ProbeTheory, Softmax) {
  const int n = 60, d = 16;
  const Measured m = measure(n, d, 60, [](const Matrix& k, const Matrix& v) {
    return weighted(
        k, v, [](double x) { return std::exp(5 * x); }, true);
  });
  const ProbeRead want = softmax_read(n, d, 5);
  EXPECT_NEAR(mean(m.signal), want.signal, 0.03);
  EXPECT_NEAR(mean(m.power), want.noise + want.signal * want.signal, 0.03);
}

// Many patterns, one after another in [x, y, ..]: what engines of capacity say.
TEST(ProbeTheory, LoadsAtWhichAllAreRight) {
  EXPECT_NEAR(8 * all_right_load(64, 8) * std::log(all_right_load(64, 8)), 64 * 64, 1e-6);
  EXPECT_LT(all_right_load(64, 8), all_right_load(64, 2));
  EXPECT_NEAR(recall(ProbeRead{1, 0}, 32, 100), 1, 1e-3);
  EXPECT_NEAR(recall(ProbeRead{0, 1}, 32, 100), 0.01, 1e-3);  // chance
}

TEST(ProbeTheory, KnowsTheMemoriesOfProbesAlone) {
  Record record;
  record.config = {{"model.name", "probe"},
                   {"task.name", "recall"},
                   {"model.d_key", 16},
                   {"memory.name", "linear_attention"},
                   {"memory.feature_map", "identity"},
                   {"memory.read_norm", "none"},
                   {"model.probe_keys", "random"}};
  ASSERT_TRUE(probe_reads(record, 9).has_value());
  EXPECT_EQ(probe_reads(record, 9)->at(0).noise, 0.5);
  for (const auto& [key, value] : {std::pair{"model.name", "retrieval"},
                                   {"model.probe_keys", "orthonormal"},
                                   {"memory.feature_map", "elu1"},
                                   {"memory.name", "rwkv4"},
                                   {"task.name", "reassign"}}) {
    Record other = record;
    other.config[key] = value;
    EXPECT_FALSE(probe_reads(other, 9).has_value()) << key;
  }
}

}  // namespace
}  // namespace crosstalk
