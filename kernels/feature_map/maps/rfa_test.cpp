// Random Fourier features against their definition and the kernel that they approach.
// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::rfa_test {
namespace {

/// u = O x / |x| as it comes in: parts of e^(i u).
Numbers rfa(const Numbers& u, int, const Numbers&) {
  Numbers y;
  const double scale = std::exp(0.5) / std::sqrt(static_cast<double>(u.size()));
  for (const double e : u) y.push_back(scale * std::polar(1.0, e).imag());
  for (const double e : u) y.push_back(scale * std::polar(1.0, e).real());
  return y;
}
CROSSTALK_MAP_ORACLE(rfa, rfa, {1}, {5}, {33});

TEST(Rfa, EstimatesTheExponentialOfTheCosine) {
  const int d = 4, m = 8;
  for (const Numbers& q : {Numbers{0.5, -0.5, 0.5, 0.5}, Numbers{0, 0.6, 0, -0.8}}) {
    const Numbers k = {0.1, 0.7, 0.5, -0.5};  // both of length 1
    const Mean estimate = mean_of(8000, [&](int draw) {
      const Numbers omega = normal_numbers(m * d, static_cast<std::uint32_t>(draw));
      const auto phi = [&](const Numbers& x) {
        return features_of(FeatureMap::rfa, 1, times_rows(omega, x), m);
      };
      return dot(phi(q), phi(k));
    });
    const double want = std::exp(dot(q, k));
    EXPECT_TRUE(std::abs(estimate.mean - want) <= 4 * estimate.error) << estimate.mean << " for " << want;
    EXPECT_LT(estimate.error, 0.01 * want);
  }
}

TEST(Rfa, EveryKeyHasTheSameLength) {
  for (const std::uint32_t draw : {1u, 2u}) {
    const Numbers phi = features_of(FeatureMap::rfa, 1, normal_numbers(6, draw), 6);
    EXPECT_NEAR(dot(phi, phi), std::exp(1), 1e-14);
  }
}

}  // namespace
}  // namespace crosstalk::checks::rfa_test
