// SiLU against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::silu_test {
namespace {

double silu(double e) { return e / 2 * (1 + std::tanh(e / 2)); }
CROSSTALK_MAP_ORACLE(silu, entries<silu>, {7}, {33});

TEST(Silu, ItsMinimumIsMinus278) {
  EXPECT_NEAR(features_of(FeatureMap::silu, 1, {-1.278464542761074}, 1)[0], -0.278464542761074, 1e-15);
}

TEST(Silu, ApproachesReluFarOut) {
  const Numbers y = features_of(FeatureMap::silu, 1, {-800, 800}, 2);
  EXPECT_LT(std::abs(y[0]),
            1e-305);  // where vectors are narrow, exp ends at the largest number, not at infinity
  EXPECT_EQ(y[1], 800);
}

}  // namespace
}  // namespace crosstalk::checks::silu_test
