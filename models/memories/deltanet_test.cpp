// DeltaNet (Yang et al. 2024, arXiv 2406.06484): its oracle, and the three forms of the delta rule that the papers
// derive, held against each other.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::deltanet_test {
namespace {

// (I + tril(Diag(beta) K K^T, -1))^{-1} Diag(beta) X of tokens first .. last - 1, by forward substitution.
Matrix solved(const Sequence& s, const Matrix& x, int first, int last) {
  Matrix y;
  for (int i = first; i < last; ++i) {
    Vector row = x.at(static_cast<std::size_t>(i));
    for (int j = first; j < i; ++j)
      row = plus(row, -dot(s.key(i), s.key(j)), y.at(static_cast<std::size_t>(j - first)));
    y.push_back(scaled(s.number("beta", i), row));
  }
  return y;
}

// Matrix: O = tril(Q K^T) U, U = (I + tril(Diag(beta) K K^T, -1))^{-1} Diag(beta) V
Matrix matrix_form(const Sequence& s) {
  const Matrix u = solved(s, s.v, 0, s.T);
  Matrix o;
  for (int i = 0; i < s.T; ++i) {
    Vector row(static_cast<std::size_t>(s.V), 0);
    for (int j = 0; j <= i; ++j)
      row = plus(row, dot(s.query(i), s.key(j)), u.at(static_cast<std::size_t>(j)));
    o.push_back(row);
  }
  return o;
}

// Chunks: U' = U - W S^T with U and W the solutions for V and K of the chunk, O = Q S^T + tril(Q K^T) U',
// S <- S + U'^T K
Matrix chunk_form(const Sequence& s, int size) {
  Matrix state = start(s), o;
  for (int first = 0; first < s.T; first += size) {
    const int last = std::min(first + size, s.T);
    const Matrix w = solved(s, s.k, first, last);
    Matrix u = solved(s, s.v, first, last);
    for (std::size_t i = 0; i < u.size(); ++i) u[i] = minus(u[i], times(state, w[i]));
    for (int i = first; i < last; ++i) {
      Vector row = times(state, s.query(i));
      for (int j = first; j <= i; ++j)
        row = plus(row, dot(s.query(i), s.key(j)), u[static_cast<std::size_t>(j - first)]);
      o.push_back(row);
    }
    for (int j = first; j < last; ++j)
      state = plus_outer(state, 1, u[static_cast<std::size_t>(j - first)], s.key(j));
  }
  return o;
}

TEST(DeltanetOracle, MatrixChunkAndScanAreEqual) {
  for (const double longest : {1.0, 2.0}) {
    Sequence s = random_sequence(no_options(), 50, 6, 4, 1);
    s.k = unit_rows(s.k), s.q = unit_rows(s.q);
    s.in["beta"] = uniform_rows(50, 1, 0, longest, 2);
    const Matrix scan = read("deltanet", s);
    expect_close(matrix_form(s), scan);
    for (const int size : {1, 7, 16, 50}) expect_close(chunk_form(s, size), scan);
  }
}

TEST(DeltanetOracle, IsTheDeltaRuleOf2021) {
  Sequence s = random_sequence(no_options(), 9, 4, 3, 3);
  s.in["beta"] = uniform_rows(9, 1, 0, 1, 4);
  expect_close(read("deltanet", s), read("delta", s));
}

}  // namespace
}  // namespace crosstalk::checks::deltanet_test
