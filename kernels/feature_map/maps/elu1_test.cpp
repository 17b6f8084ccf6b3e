// elu + 1 against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::elu1_test {
namespace {

double elu1(double e) { return e > 0 ? e + 1 : std::exp(e); }
CROSSTALK_MAP_ORACLE(elu1, entries<elu1>, {7}, {64});

TEST(Elu1, IsOneAndSmoothAtZero) {
  EXPECT_EQ(features_of(FeatureMap::elu1, 1, {0}, 1), Numbers{1});
  const Numbers y = features_of(FeatureMap::elu1, 1, {-1e-9, 1e-9}, 2);
  EXPECT_NEAR(y[1] - y[0], 2e-9, 1e-15);
}

}  // namespace
}  // namespace crosstalk::checks::elu1_test
