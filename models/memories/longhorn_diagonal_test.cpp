// Longhorn as released (Liu et al. 2024, arXiv 2407.14207): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::longhorn_diagonal_test {

CROSSTALK_HALF_LIFE(longhorn_diagonal, 106.0);

/// A state (1, 1) of one value after a write of 0 at the rate beta = 1/2.
Matrix after(const Vector& key, const char* memory) {
  Sequence s = random_sequence(no_options(), 2, 2, 1, 1);
  s.k = {key, key}, s.v = {{0}, {0}}, s.q = {unit(2, 0), unit(2, 1)};
  s.in["beta"] = {{0.5}, {0}}, s.in["s0"] = {{1, 1}};
  return read(memory, s);
}

// (1, 1) / sqrt 2: 5/6 here, 2/3 by the exact rule.
TEST(LonghornDiagonalOracle, ForgetsOtherwiseThanTheExactRule) {
  const double c = 1 / std::sqrt(2.0);
  for (const auto& [memory, left] : {std::pair{"longhorn_diagonal", 5 / 6.}, {"longhorn", 2 / 3.}})
    expect_close(after({c, c}, memory), Matrix{{left}, {left}});
}

TEST(LonghornDiagonalOracle, IsTheExactRuleForKeysOfOneChannel) {
  expect_close(after({1, 0}, "longhorn_diagonal"), after({1, 0}, "longhorn"));
}

TEST(LonghornDiagonalOracle, NeverGrowsHoweverLongTheKey) {
  Sequence s = random_sequence(no_options(), 20, 4, 3, 3);
  for (Vector& k : s.k) k = scaled(1e3, k);
  s.v = zeros(20, 3), s.in["beta"] = constant_rows(20, 3, 0.9), s.in["s0"] = normal_rows(3, 4, 5);
  s.q = Matrix(20, unit(4, 2));
  const Matrix o = read("longhorn_diagonal", s);
  for (int t = 1; t < 20; ++t)
    for (std::size_t v = 0; v < 3; ++v)
      EXPECT_LE(std::abs(o[static_cast<std::size_t>(t)][v]), std::abs(o[static_cast<std::size_t>(t - 1)][v]));
}

}  // namespace crosstalk::checks::longhorn_diagonal_test
