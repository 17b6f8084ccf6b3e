// Stick-breaking attention (Tan et al. 2024, arXiv 2410.17980): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::stick_breaking_test {

TEST(StickBreakingOracle, ScoresOfZeroHalveTheStickEveryTime) {
  Sequence s = random_sequence(no_options(), 4, 2, 3, 1);
  s.q = zeros(4, 2);
  const Matrix o = read("stick_breaking", s);
  expect_close(o[0], Vector(3, 0));
  expect_close(o[3], plus(plus(scaled(0.5, s.v[2]), 0.25, s.v[1]), 0.125, s.v[0]));
}

// Of tokens that the query knows equally well the last one is read: the rule of MQAR with keys that are written again.
TEST(StickBreakingOracle, TheLastOfEqualKeysIsRead) {
  Sequence s = random_sequence(no_options(), 4, 2, 3, 2);
  s.k = {{1, 0}, {1, 0}, {-1, 0}, {0, 1}}, s.q = Matrix(4, Vector{1000, 0});
  expect_close(read("stick_breaking", s)[3], s.v[1]);
}

}  // namespace crosstalk::checks::stick_breaking_test
