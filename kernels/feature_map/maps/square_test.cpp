// Squares against products, and their law: the sign of an entry does not count.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::square_test {
namespace {

double square(double e) { return std::pow(std::abs(e), 2); }
CROSSTALK_MAP_ORACLE(square, entries<square>, {7}, {33});

TEST(Square, TheSignOfAnEntryDoesNotCount) {
  const Numbers x = normal_numbers(5, 3);
  Numbers other = x;
  other[1] *= -1, other[4] *= -1;
  EXPECT_EQ(features_of(FeatureMap::square, 1, x, 5), features_of(FeatureMap::square, 1, other, 5));
}

}  // namespace
}  // namespace crosstalk::checks::square_test
