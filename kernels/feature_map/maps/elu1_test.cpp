// elu + 1 against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::elu1_test {
namespace {

Numbers elu1(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) y.push_back(e > 0 ? e + 1 : std::exp(e));
  return y;
}
CROSSTALK_MAP_ORACLE(elu1, elu1, {7}, {64});

TEST(Elu1, IsOneAndSmoothAtZero) {
  EXPECT_EQ(features_of(FeatureMap::elu1, 1, {0}, 1), Numbers{1});
  const Numbers y = features_of(FeatureMap::elu1, 1, {-1e-9, 1e-9}, 2);
  EXPECT_NEAR(y[1] - y[0], 2e-9, 1e-15);
}

}  // namespace
}  // namespace crosstalk::checks::elu1_test
