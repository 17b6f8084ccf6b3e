// DPFP against its definition, and what its features span.
// SPDX-License-Identifier: Apache-2.0
#include <Eigen/QR>

#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::dpfp_test {
namespace {

/// torch.roll(x, j): element i moves to i + j.
Numbers roll(const Numbers& x, int j) {
  const int n = static_cast<int>(x.size());
  Numbers y(x.size());
  for (int i = 0; i < n; ++i) y[(i + j) % n] = x[i];
  return y;
}

Numbers concatenate(Numbers x, const Numbers& y) {
  x.insert(x.end(), y.begin(), y.end());
  return x;
}

/// Listing 1 of Schlag, Irie, Schmidhuber (2021), line by line.
Numbers dpfp(const Numbers& in, int nu, const Numbers&) {
  Numbers positive, negative;
  for (double e : in) positive.push_back(std::max(e, 0.0)), negative.push_back(std::max(-e, 0.0));
  const Numbers x = concatenate(positive, negative);
  Numbers x_rolled, x_repeat;
  for (int j = 1; j <= nu; ++j) x_rolled = concatenate(x_rolled, roll(x, j));
  for (int j = 1; j <= nu; ++j) x_repeat = concatenate(x_repeat, x);
  for (std::size_t i = 0; i < x_repeat.size(); ++i) x_repeat[i] *= x_rolled[i];
  return x_repeat;
}

CROSSTALK_MAP_ORACLE(dpfp, dpfp, {1, 1}, {4, 1}, {5, 1}, {16, 1}, {1, 2}, {4, 2}, {5, 2}, {16, 2}, {1, 3},
                     {4, 3}, {5, 3}, {16, 3}, {3, 5}, {3, 6}, {3, 7}, {3, 13});  // 2 d = 6: rolls come round

// Non-negative, and linearly independent as long as rolls do not pair the same two elements twice.
TEST(Dpfp, NonNegativeWithFullRank) {
  for (const auto& [d, nu] : {std::pair{8, 1}, {8, 2}, {8, 3}, {7, 2}, {5, 4}}) {
    const int p = 2 * d * nu, N = 12 * p;
    Numbers y = features_of(FeatureMap::dpfp, nu, normal_numbers(static_cast<std::size_t>(N * d), 1), d);
    const Eigen::Map<Eigen::Matrix<double, -1, -1, Eigen::RowMajor>> rows(y.data(), N, p);
    EXPECT_GE(rows.minCoeff(), 0);
    Eigen::ColPivHouseholderQR<Eigen::MatrixXd> qr(rows);
    qr.setThreshold(1e-9);
    EXPECT_EQ(qr.rank(), p) << "d = " << d << ", nu = " << nu;
  }
}

// In the plane each of the four features lives in one quadrant; their product is largest on the diagonal.
TEST(Dpfp, FourFeaturesOfThePlaneShareItsQuadrants) {
  for (const auto& [x, y, feature] :
       {std::tuple{1.0, 1.0, 1}, {-1.0, 1.0, 2}, {-1.0, -1.0, 3}, {1.0, -1.0, 0}}) {
    const Numbers phi = features_of(FeatureMap::dpfp, 1, {x, y}, 2);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(phi[i], i == feature ? 1 : 0) << x << ", " << y;
  }
}

}  // namespace
}  // namespace crosstalk::checks::dpfp_test
