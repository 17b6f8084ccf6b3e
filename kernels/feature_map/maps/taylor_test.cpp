// The Taylor series of e^{q.k}: monomials against weights from factorials, and their product.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/feature_map/maps/taylor.h"

#include "kernels/testing/map_oracle.h"

namespace crosstalk::checks::taylor_test {
namespace {

Numbers taylor(const Numbers& x, int n, const Numbers&) {
  return monomials(x, n, [](const std::vector<int>& a) {
    double weight = 1;
    for (std::size_t v = 1; v < a.size(); ++v) weight /= std::tgamma(a[v] + 1);
    return weight;
  });
}
CROSSTALK_MAP_ORACLE(taylor, taylor, {1, 1}, {5, 1}, {4, 2}, {16, 2}, {7, 3}, {1, 4}, {3, 5}, {2, 8});

/// The exact value of phi(q).phi(k).
double polynomial(double s, int n) {
  double sum = 0, term = 1;
  for (int i = 0; i <= n; term *= s / ++i) sum += term;
  return sum;
}

TEST(Taylor, MonomialsMakeThePolynomial) { expect_monomials(FeatureMap::taylor, polynomial); }

// The kernel is positive for even n, whatever q.k: its minimum is 0.5 at n = 2.
TEST(Taylor, EvenDegreesArePositive) {
  double least = 1;
  for (double s = -5; s <= 5; s += 0.01) {
    const Numbers q = features_of(FeatureMap::taylor, 2, {s, 0}, 2),
                  k = features_of(FeatureMap::taylor, 2, {1, 0}, 2);
    least = std::min(least, dot(q, k));
  }
  EXPECT_NEAR(least, 0.5, 1e-4);
}

/// A team, of which one lane does its part.
template <int kSize>
struct Lane {
  static constexpr int kLanes = kSize;
  int lane = 0;
  void sync() const {}
  void each(int begin, int end, auto&& f) const {
    for (int i = begin + lane; i < end; i += kLanes) f(i);
  }
};

// On a GPU, lanes share a row of degree 2 in another way than one that is alone.
TEST(Taylor, LanesThatShareARowMakeWhatOneMakes) {
  for (const int d : {1, 2, 24, 45}) {
    maps::MapRow<double> row;
    row.d = d, row.p = static_cast<int>(map_width(FeatureMap::taylor, d, 2, 0)), row.number = 2;
    const Numbers x = normal_numbers(static_cast<std::size_t>(d), 5),
                  d_y = normal_numbers(static_cast<std::size_t>(row.p), 6);
    row.x = x.data();
    Numbers y(d_y.size(), 0), shared_y = y, d_x(x.size(), 1), shared_d_x = d_x;
    maps::taylor::forward(Lane<1>{}, row, y.data());
    maps::taylor::backward(Lane<1>{}, row, y.data(), d_y.data(), {d_x.data(), Write::add});
    for (int lane = 0; lane < 32; ++lane) {
      maps::taylor::forward(Lane<32>{lane}, row, shared_y.data());
      maps::taylor::backward(Lane<32>{lane}, row, y.data(), d_y.data(), {shared_d_x.data(), Write::add});
    }
    EXPECT_EQ(y, shared_y) << "d = " << d;
    for (std::size_t i = 0; i < d_x.size(); ++i) EXPECT_NEAR(d_x[i], shared_d_x[i], 1e-13 * d) << "d = " << d;
  }
}

}  // namespace
}  // namespace crosstalk::checks::taylor_test
