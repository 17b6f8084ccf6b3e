// Powers of 1 + q.k / n: monomials against weights from factorials, and their product.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::power_test {
namespace {

/// The multinomial coefficient of a, and 1 / n for each factor that is not x_0.
Numbers power(const Numbers& x, int n, const Numbers&) {
  return monomials(x, n, [n](const std::vector<int>& a) {
    double weight = std::tgamma(n + 1);
    for (std::size_t v = 0; v < a.size(); ++v)
      weight /= std::tgamma(a[v] + 1) * (v > 0 ? std::pow(n, a[v]) : 1);
    return weight;
  });
}
CROSSTALK_MAP_ORACLE(power, power, {1, 1}, {5, 1}, {4, 2}, {16, 2}, {7, 3}, {1, 4}, {3, 5}, {2, 8});

/// The exact value of phi(q).phi(k).
double polynomial(double s, int n) { return std::pow(1 + s / n, n); }

TEST(Power, MonomialsMakeThePolynomial) { expect_monomials(FeatureMap::power, polynomial); }

TEST(Power, OfDegreeOneIsTaylor) {
  const Numbers x = normal_numbers(5, 2);
  const Numbers a = features_of(FeatureMap::power, 1, x, 5), b = features_of(FeatureMap::taylor, 1, x, 5);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-15);
}

TEST(Power, GoesToTheExponential) {
  const double s = 0.8;
  double last = 1;
  for (const int n : {1, 2, 4, 8}) {
    const Numbers q = features_of(FeatureMap::power, n, {s}, 1),
                  k = features_of(FeatureMap::power, n, {1}, 1);
    const double error = std::abs(dot(q, k) - std::exp(s));
    EXPECT_LT(error, 0.7 * last);
    last = error;
  }
}

}  // namespace
}  // namespace crosstalk::checks::power_test
