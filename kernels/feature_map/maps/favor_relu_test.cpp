// FAVOR+ with ReLU against its definition.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::favor_relu_test {
namespace {

/// u = O x as it comes in; number is d.
Numbers favor_relu(const Numbers& u, int d, const Numbers&) {
  Numbers y;
  for (const double e : u)
    y.push_back((std::max(e * std::pow(d, -0.25), 0.0) + 1e-3) / std::sqrt(static_cast<double>(u.size())));
  return y;
}
CROSSTALK_MAP_ORACLE(favor_relu, favor_relu, {7, 4}, {33, 16});

// E relu(w.q) relu(w.k) = |q||k| (sin a + (pi - a) cos a) / (2 pi) at an angle a, E relu(w.q) = |q| / sqrt(2
// pi) (Cho and Saul 2009); with d^(-1/4) for each factor, and 1e-3 added.
TEST(FavorRelu, EstimatesTheArcCosineKernel) {
  const int d = 4, m = 8;
  const Numbers q = {0.5, -0.3, 0.8, 0.1}, k = {0.2, 0.7, 0.4, -0.6};
  const double a = std::acos(dot(q, k) / std::sqrt(dot(q, q) * dot(k, k))),
               lengths = std::sqrt(dot(q, q) * dot(k, k));
  const double both = lengths * (std::sin(a) + (M_PI - a) * std::cos(a)) / (2 * M_PI) / std::sqrt(d),
               one = (std::sqrt(dot(q, q)) + std::sqrt(dot(k, k))) / std::sqrt(2 * M_PI) / std::pow(d, 0.25);
  const Mean estimate = mean_of(12000, [&](int draw) {
    const Numbers omega = normal_numbers(m * d, static_cast<std::uint32_t>(draw));
    const auto phi = [&](const Numbers& x) {
      return features_of(FeatureMap::favor_relu, d, times_rows(omega, x), m);
    };
    return dot(phi(q), phi(k));
  });
  const double want = both + 1e-3 * one + 1e-6;
  EXPECT_TRUE(std::abs(estimate.mean - want) <= 4 * estimate.error) << estimate.mean << " for " << want;
  EXPECT_LT(estimate.error, 0.01 * want);
}

}  // namespace
}  // namespace crosstalk::checks::favor_relu_test
