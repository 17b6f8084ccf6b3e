// The squares of all_poly against their definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::all_poly_test {
namespace {

double all_poly(double e) { return e * e / std::sqrt(2.0); }
CROSSTALK_MAP_ORACLE(all_poly, entries<all_poly>, {7}, {33});

TEST(AllPoly, IsOfDegreeTwo) {
  const Numbers u = normal_numbers(5, 3);
  Numbers twice = u;
  for (double& e : twice) e *= 2;
  const Numbers y = features_of(FeatureMap::all_poly, 1, u, 5),
                z = features_of(FeatureMap::all_poly, 1, twice, 5);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_NEAR(z[i], 4 * y[i], 1e-14);
}

}  // namespace
}  // namespace crosstalk::checks::all_poly_test
