// Longhorn, the implicit delta rule (Liu et al. 2024, arXiv 2407.14207): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::longhorn_test {

// S_t minimises |X - S_{t-1}|^2 + beta |X k - v|^2: there its gradient, (X - S) + beta (X k - v) k^T, is 0.
TEST(LonghornOracle, SolvesTheProximalStep) {
  Sequence s = random_sequence(no_options(), 1, 4, 3, 1);
  s.in["beta"] = {{3}}, s.in["s0"] = normal_rows(3, 4, 2);
  Matrix x = zeros(3, 4);
  for (int c = 0; c < 4; ++c) {
    s.q[0] = unit(4, c);
    const Vector column = read("longhorn", s)[0];
    for (std::size_t i = 0; i < 3; ++i) x[i][static_cast<std::size_t>(c)] = column[i];
  }
  const Matrix gradient = plus_outer(x, 3, minus(times(x, s.k[0]), s.v[0]), s.k[0]);
  expect_close(gradient, s.in["s0"]);
}

TEST(LonghornOracle, NeverDivergesAndHugeBetaOverwritesWithAnyKey) {
  Sequence s = random_sequence(no_options(), 50, 4, 3, 3);
  s.q = s.k;
  s.in["beta"] = constant_rows(50, 1, 1e12);
  expect_close(read("longhorn", s), s.v, 1e-8);
}

}  // namespace crosstalk::checks::longhorn_test
