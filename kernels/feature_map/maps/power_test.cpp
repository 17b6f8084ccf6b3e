// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks {
namespace {

/// The feature of x_0^a_0 x_1^a_1 ..., x_0 = 1.
double feature(const Numbers& x, const std::vector<int>& a) {
  const int n = std::accumulate(a.begin(), a.end(), 0);
  double weight = std::tgamma(n + 1);
  for (std::size_t v = 0; v < a.size(); ++v)
    weight /= std::tgamma(a[v] + 1) * (v > 0 ? std::pow(n, a[v]) : 1);
  double y = std::sqrt(weight);
  for (std::size_t v = 1; v < a.size(); ++v) y *= std::pow(x[v - 1], a[v]);
  return y;
}

/// All exponents a of degree n in x_0 .. x_last, the exponent of the last variable slowest: as they lie.
void each_exponent(int last, int n, std::vector<int>& a, const std::function<void()>& visit) {
  if (last == 0) {
    a[0] = n;
    visit();
    return;
  }
  for (a[static_cast<std::size_t>(last)] = 0; a[static_cast<std::size_t>(last)] <= n;
       ++a[static_cast<std::size_t>(last)])
    each_exponent(last - 1, n - a[static_cast<std::size_t>(last)], a, visit);
}

Numbers power(const Numbers& x, int n, const Numbers&) {
  Numbers y;
  std::vector<int> a(x.size() + 1, 0);
  each_exponent(static_cast<int>(x.size()), n, a, [&] { y.push_back(feature(x, a)); });
  return y;
}
CROSSTALK_MAP_ORACLE(power, power, {1, 1}, {5, 1}, {4, 2}, {16, 2}, {7, 3}, {1, 4}, {3, 5}, {2, 8});

/// What phi(q).phi(k) is, exactly.
double polynomial(double s, int n) { return std::pow(1 + s / n, n); }

TEST(Power, TheProductOfFeaturesIsThePolynomialOfTheProduct) {
  for (const int n : {1, 2, 3, 4, 6}) {
    for (const int d : {1, 3, 6}) {
      const auto size = static_cast<std::size_t>(d);
      const Numbers q = normal_numbers(size, 5), k = normal_numbers(size, 6);
      const Numbers a = features_of(FeatureMap::power, n, q, d), b = features_of(FeatureMap::power, n, k, d);
      const double scale = std::sqrt(dot(a, a) * dot(b, b));
      EXPECT_NEAR(dot(a, b), polynomial(dot(q, k), n), 1e-14 * scale) << "n = " << n << ", d = " << d;
    }
  }
}

// C(d + n, n) features: none is written twice, as in the full tensor power.
TEST(Power, HasAsManyFeaturesAsThereAreMonomials) {
  for (const auto& [d, n, p] :
       {std::tuple{64, 1, 65}, {64, 2, 2145}, {16, 4, 4845}, {8, 8, 12870}, {3, 2, 10}})
    EXPECT_EQ(map_width(FeatureMap::power, d, n, 0), p);
}

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
}  // namespace crosstalk::checks
