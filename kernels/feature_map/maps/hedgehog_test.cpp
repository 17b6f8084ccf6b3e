// Hedgehog against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::hedgehog_test {
namespace {

/// u as it comes in.
Numbers hedgehog(const Numbers& u, int softmax, const Numbers&) {
  Numbers y;
  for (const double sign : {1.0, -1.0})
    for (const double e : u) y.push_back(std::exp(sign * (softmax == 1 ? 2 : 1) * e));
  double sum = 0;
  for (const double e : y) sum += e;
  for (double& e : y) e /= softmax == 1 ? sum : 1;
  return y;
}
CROSSTALK_MAP_ORACLE(hedgehog, hedgehog, {1, 1}, {7, 1}, {33, 1}, {7, 0}, {40, 0});

TEST(Hedgehog, IsADistributionHoweverLargeTheKey) {
  for (const double scale : {1.0, 1e3, 1e200}) {
    const Numbers y = features_of(FeatureMap::hedgehog, 1, {scale, -scale / 2, 0, 0}, 4);
    double sum = 0;
    for (const double e : y) {
      EXPECT_GE(e, 0);
      sum += e;
    }
    EXPECT_NEAR(sum, 1, 1e-15);
  }
}

TEST(Hedgehog, AnOppositeKeyExchangesTheHalves) {
  const Numbers u = normal_numbers(5, 3), y = features_of(FeatureMap::hedgehog, 1, u, 5);
  Numbers minus;
  for (const double e : u) minus.push_back(-e);
  const Numbers z = features_of(FeatureMap::hedgehog, 1, minus, 5);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(y[i], z[5 + i], 1e-16);
}

}  // namespace
}  // namespace crosstalk::checks::hedgehog_test
