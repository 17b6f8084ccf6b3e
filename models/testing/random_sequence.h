// Sequences for tests of the laws of memories: random and unit keys, constant gates, comparison.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <gtest/gtest.h>

#include <cstdint>
#include <random>

#include "models/testing/sequence.h"

namespace crosstalk::checks {

inline Matrix normal_rows(int rows, int columns, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  Matrix m = zeros(rows, columns);
  for (Vector& row : m)
    for (double& e : row) e = normal(random);
  return m;
}
inline Matrix uniform_rows(int rows, int columns, double low, double high, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Matrix m = zeros(rows, columns);
  for (Vector& row : m)
    for (double& e : row) e = uniform(random);
  return m;
}
inline Matrix constant_rows(int rows, int columns, double value) {
  return Matrix(static_cast<std::size_t>(rows), Vector(static_cast<std::size_t>(columns), value));
}
inline Matrix unit_rows(Matrix m) {
  for (Vector& row : m) row = scaled(1 / std::sqrt(dot(row, row)), row);
  return m;
}
/// e_index of n
inline Vector unit(int n, int index) {
  Vector e(static_cast<std::size_t>(n), 0);
  e.at(static_cast<std::size_t>(index)) = 1;
  return e;
}

inline const Options& no_options() {
  static const Options none;
  return none;
}
inline Options option(const std::string& name, OptionValue value, Options options = {}) {
  options.set("memory." + name, std::move(value));
  return options;
}

/// Normal q, k and v; `writes` rows of k and v a token.
inline Sequence random_sequence(const Options& options, int T, int K, int V, std::uint64_t seed,
                                int writes = 1) {
  return {.T = T,
          .K = K,
          .V = V,
          .options = options,
          .q = normal_rows(T, K, 3 * seed),
          .k = normal_rows(T * writes, K, 3 * seed + 1),
          .v = normal_rows(T * writes, V, 3 * seed + 2)};
}
/// The same sequence for another memory: other options.
inline Sequence with_options(const Sequence& s, const Options& options) {
  return {.T = s.T, .K = s.K, .V = s.V, .options = options, .q = s.q, .k = s.k, .v = s.v, .in = s.in};
}

/// What the memory itself reads, around which a model can be built (read_check.cpp); nothing where only models have these options.
Matrix memory_reads(const std::string& memory, const Sequence& s);
/// That is `want`.
void expect_memory_reads(const std::string& memory, const Sequence& s, const Matrix& want);

/// What the memory reads: of one that has an oracle, what that reads and the memory with it.
inline Matrix read(const std::string& memory, const Sequence& s) {
  const Oracle oracle = find_oracle(memory);
  if (oracle == nullptr) return memory_reads(memory, s);
  const Matrix want = oracle(s);
  expect_memory_reads(memory, s, want);
  return want;
}

/// |got - want| <= limit (1 + |want|), element by element.
inline void expect_close(const Matrix& got, const Matrix& want, double limit = 1e-12) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t].size(), want[t].size()) << "row " << t;
    for (std::size_t i = 0; i < got[t].size(); ++i)
      EXPECT_NEAR(got[t][i], want[t][i], limit * (1 + std::abs(want[t][i]))) << "[" << t << ", " << i << "]";
  }
}
inline void expect_close(const Vector& got, const Vector& want, double limit = 1e-12) {
  expect_close(Matrix{got}, Matrix{want}, limit);
}

}  // namespace crosstalk::checks
