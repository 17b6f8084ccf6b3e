// cosFormer's pairs against their definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::cosformer_test {
namespace {

Numbers cosformer(const Numbers& x, int, const Numbers&) {
  Numbers y;
  for (const double e : x) {
    y.push_back((e + std::abs(e)) / 2);
    y.push_back(0);
  }
  return y;
}
CROSSTALK_MAP_ORACLE(cosformer, cosformer, {7, 1}, {33, 1}, {1, 1});

TEST(Cosformer, ProductsAreThoseOfRelu) {
  const Numbers q = normal_numbers(9, 3), k = normal_numbers(9, 4);
  double want = 0;
  for (std::size_t i = 0; i < 9; ++i) want += std::max(q[i], 0.0) * std::max(k[i], 0.0);
  EXPECT_NEAR(dot(features_of(FeatureMap::cosformer, 1, q, 9), features_of(FeatureMap::cosformer, 1, k, 9)),
              want, 1e-14);
}

}  // namespace
}  // namespace crosstalk::checks::cosformer_test
