// Parallax (2026, arXiv 2605.29157): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::parallax_test {

TEST(ParallaxOracle, AConstantValueIsReadWhateverTheQueries) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.in["second_query"] = normal_rows(6, 4, 7);
  s.v = constant_rows(6, 3, 2);
  expect_close(read("parallax", s), s.v);
}

// Values that are linear in the keys are read off where the query wants, with r = S^-1 (mean - wanted), here along one key axis.
TEST(ParallaxOracle, MovesAlongTheSlopeOfValues) {
  Sequence s = random_sequence(no_options(), 2, 1, 1, 3);
  s.k = {{0}, {1}}, s.v = {{5}, {7}}, s.q = Matrix(2, Vector(1, 0));
  s.in["second_query"] = constant_rows(2, 1, -2);  // variance of keys 1/4: from the mean by 1/2
  EXPECT_NEAR(read("parallax", s)[1][0], 7, 1e-12);
}

}  // namespace crosstalk::checks::parallax_test
