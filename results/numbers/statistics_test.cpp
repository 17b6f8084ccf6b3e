// Statistics against known answers of NumPy, SciPy and by hand.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/statistics.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

namespace crosstalk {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

void expect_near(double got, double wanted, double tolerance = 1e-12) {
  if (!(std::abs(got - wanted) <= tolerance)) ADD_FAILURE() << got << " is not " << wanted;
}

TEST(Median, KnownValues) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 3, 2}), 2.5);
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({nan, 5, nan, 1}), 3);
  EXPECT_EQ(median({1, inf, inf}), inf);
  EXPECT_EQ(median({1, 2, inf}), 2);
  EXPECT_EQ(median({inf, inf}), inf);
  EXPECT_TRUE(std::isnan(median({})));
  EXPECT_TRUE(std::isnan(median({nan})));
}

TEST(Quantile, EqualsNumPy) {
  // numpy.quantile([0.1, 0.7, 0.2, 1.5, 3.0], p)
  const std::vector<double> values = {0.1, 0.7, 0.2, 1.5, 3.0};
  expect_near(quantile(values, 0), 0.1);
  expect_near(quantile(values, 0.1), 0.14);
  expect_near(quantile(values, 0.25), 0.2);
  expect_near(quantile(values, 0.33), 0.36);
  expect_near(quantile(values, 0.9), 2.4);
  expect_near(quantile(values, 1), 3);
  EXPECT_EQ(quantile({1, 2, inf}, 0.5), 2);
  EXPECT_EQ(quantile({1, inf, inf}, 0.75), inf);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
  EXPECT_THROW(quantile(values, 1.1), std::invalid_argument);
  EXPECT_THROW(quantile(values, nan), std::invalid_argument);
}

RC_GTEST_PROP(Quantile, HalfIsTheMedian, (const std::vector<int>& integers)) {
  const std::vector<double> values(integers.begin(), integers.end());
  const double a = quantile(values, 0.5);
  const double b = median(values);
  const bool equal = values.empty() ? std::isnan(a) && std::isnan(b) : std::abs(a - b) <= 1e-9 * std::abs(b);
  RC_ASSERT(equal);
}

TEST(Summarise, RangeBelowSixSeedsThenOrderStatistics) {
  const Summary three = summarise({3, 1, 2, nan});
  EXPECT_EQ(three.n, 3);
  EXPECT_EQ(three.lo, 1);
  EXPECT_EQ(three.median, 2);
  EXPECT_EQ(three.hi, 3);
  const Summary five = summarise({5, 1, 4, 2, 3});
  EXPECT_EQ(five.n, 5);
  EXPECT_EQ(five.lo, 1);
  EXPECT_EQ(five.median, 3);
  EXPECT_EQ(five.hi, 5);
  EXPECT_EQ(summarise({}).n, 0);
  EXPECT_TRUE(std::isnan(summarise({}).median));
  // Ten values: depth 2 covers 0.97852, depth 3 0.89063. Hettmansperger and Sheather: share 0.32444 of the
  // difference, 8 share / (2 + 6 share) = 0.65767 of the way from the second value to the third.
  const Summary ten = summarise({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  expect_near(ten.lo, 2.65767, 1e-4);
  expect_near(ten.hi, 8.34233, 1e-4);
  const Summary diverged = summarise({1, 2, 3, 4, 5, inf, inf});
  EXPECT_EQ(diverged.median, 4);
  EXPECT_EQ(diverged.hi, inf);
  // An end between a seed and a diverged one is the outer of the two: nothing lies on the way to infinity.
  const Summary one = summarise({1, 2, 3, 4, 5, 6, 7, 8, 9, inf});
  expect_near(one.lo, 2.65767, 1e-4);
  expect_near(one.hi, 8.34233, 1e-4);
  EXPECT_EQ(summarise({1, 2, 3, 4, 5, 6, 7, 8, inf, inf}).hi, inf);
  EXPECT_EQ(summarise({-inf, -inf, 3, 4, 5, 6, 7, 8, 9, 10}).lo, -inf);
}

TEST(Summarise, IntervalsSayWhatTheyAre) {
  EXPECT_EQ(interval_name(2, 5), "range of 2 to 5 seeds");
  EXPECT_EQ(interval_name(10, 10), "95 % confidence interval of the median");
  EXPECT_EQ(interval_name(5, 10), "95 % confidence interval of the median (range where fewer than 6 seeds)");
}

// Loss 0 where solved, 0.3 where not; rows are loads 20, 40, ...; columns are seeds.
std::vector<LoadPoint> points_of(const std::vector<std::vector<double>>& losses) {
  std::vector<LoadPoint> points;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    for (std::size_t seed = 0; seed < losses[i].size(); ++seed) {
      points.push_back({20.0 * static_cast<double>(i + 1), static_cast<std::int64_t>(seed), losses[i][seed]});
    }
  }
  return points;
}

TEST(Capacity, StopsAtTheFirstHole) {
  const Capacity found = capacity(points_of({{0}, {0}, {0.3}, {0}}), 0.001);
  EXPECT_EQ(found.capacity, 40);
  EXPECT_FALSE(found.censored);
  EXPECT_EQ(found.seeds, 1);
  EXPECT_EQ(found.unsolved, 60);  // what was not tried between them is not known
  EXPECT_EQ(found.lo, 40);
  EXPECT_EQ(found.hi, 60);
}

TEST(Capacity, OrderOfPointsDoesNotMatter) {
  EXPECT_EQ(capacity({{80, 1, 0}, {20, 1, 0}, {60, 1, 0.3}, {40, 1, 0}}, 0.001).capacity, 40);
}

TEST(Capacity, AtTheEndOfTheGridItIsCensored) {
  const Capacity found = capacity(points_of({{0, 0}, {0, 0}}), 0.001);
  EXPECT_EQ(found.capacity, 40);
  EXPECT_TRUE(found.censored);
  EXPECT_EQ(found.unsolved, inf);
  EXPECT_EQ(found.hi, inf);
}

TEST(Capacity, NothingSolvedIsZero) {
  const Capacity found = capacity(points_of({{0.3, 0.3}, {0, 0}}), 0.001);
  EXPECT_EQ(found.capacity, 0);
  EXPECT_EQ(found.lo, 0);
  EXPECT_EQ(found.hi, 20);
  EXPECT_FALSE(found.censored);
  const Capacity none = capacity({}, 0.001);
  EXPECT_EQ(none.capacity, 0);
  EXPECT_EQ(none.seeds, 0);
  EXPECT_FALSE(none.censored);
}

TEST(Capacity, ThresholdItselfIsSolved) {
  EXPECT_EQ(capacity(points_of({{0.001}, {0.0010001}}), 0.001).capacity, 20);
}

TEST(Capacity, DivergedSeedsCountAsNotSolved) {
  EXPECT_EQ(capacity(points_of({{0, 0, 0}, {0, nan, inf}}), 0.001).capacity, 20);
  EXPECT_EQ(capacity(points_of({{0, 0, 0}, {0, 0, nan}, {-inf, -inf, 0}}), 0.001).capacity, 40);
}

TEST(Capacity, MedianSeedDecides) {
  EXPECT_EQ(capacity(points_of({{0, 0, 0.3}, {0.3, 0, 0.3}}), 0.001).capacity, 20);
}

// No seed solves all loads, the median seed does: the interval holds the capacity all the same.
TEST(Capacity, IntervalHoldsTheCapacity) {
  const Capacity found = capacity(points_of({{0.3, 0, 0}, {0, 0.3, 0}, {0, 0, 0.3}}), 0.001);
  EXPECT_EQ(found.capacity, 60);
  EXPECT_EQ(found.lo, 0);
  EXPECT_EQ(found.hi, inf);
}

// A seed that was not run at a load neither solved it nor failed there.
TEST(Capacity, AnUntestedLoadIsNotSolved) {
  const Capacity found = capacity({{4, 1, 0}, {8, 1, 0}, {16, 1, 0.3}, {4, 2, 0}, {16, 2, 0.3}}, 0.001);
  EXPECT_EQ(found.capacity, 8);
  EXPECT_EQ(found.lo, 4);
  EXPECT_EQ(found.hi, 16);
}

TEST(Capacity, IntervalCountsSeeds) {
  // Five seeds that break down at 20, 40, 60, 80 and beyond 100: fewer than six, so the interval is their
  // range, from the lowest solved load to the highest that is not.
  std::vector<std::vector<double>> losses(5, std::vector<double>(5, 0));
  for (std::size_t load = 0; load < 5; ++load) {
    for (std::size_t seed = 0; seed < load; ++seed) losses[load][seed] = 0.3;
  }
  const Capacity found = capacity(points_of(losses), 0.001);
  EXPECT_EQ(found.capacity, 60);
  EXPECT_EQ(found.lo, 20);
  EXPECT_EQ(found.hi, inf);
  EXPECT_EQ(found.seeds, 5);
  // Twenty-one seeds, 18 of which agree.
  std::vector<std::vector<double>> agree(4, std::vector<double>(21, 0));
  for (std::size_t seed = 0; seed < 18; ++seed) agree[2][seed] = agree[3][seed] = 0.3;
  const Capacity narrow = capacity(points_of(agree), 0.001);
  EXPECT_EQ(narrow.lo, 40);
  EXPECT_EQ(narrow.capacity, 40);
  EXPECT_EQ(narrow.hi, 60);
}

TEST(Capacity, MissingSeedsAreNoFailures) {
  EXPECT_EQ(capacity({{20, 1, 0}, {20, 2, 0}, {40, 1, 0}, {60, 1, 0.3}, {60, 2, 0.3}}, 0.001).capacity, 40);
  EXPECT_THROW(capacity({{nan, 1, 0}}, 0.001), std::invalid_argument);
}

RC_GTEST_PROP(Capacity, IsInItsIntervalAndRepeats, ()) {
  const auto losses = *rc::gen::container<std::vector<std::vector<double>>>(
      6, rc::gen::container<std::vector<double>>(4, rc::gen::element(0.0, 0.0, 0.0, 0.3, nan)));
  const Capacity a = capacity(points_of(losses), 0.001);
  const Capacity b = capacity(points_of(losses), 0.001);
  RC_ASSERT(a.lo <= a.capacity && a.capacity < a.unsolved && a.unsolved <= a.hi);
  RC_ASSERT(a.lo == b.lo && a.hi == b.hi && a.capacity == b.capacity);
}

std::vector<Bracket> points_on(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<Bracket> brackets;
  for (std::size_t i = 0; i < x.size(); ++i) brackets.push_back({x[i], y[i], y[i]});
  return brackets;
}

TEST(FitLine, PointsGiveLeastSquaresAndStudentsInterval) {
  // By hand: slope 0.6, intercept 2.2, residual squares 2.4, Sxx 10; t quantile 3.182446 for 3 degrees.
  const LineFit fit = fit_line(points_on({1, 2, 3, 4, 5}, {2, 4, 5, 4, 5}));
  EXPECT_EQ(fit.n, 5);
  expect_near(fit.slope, 0.6, 1e-4);
  expect_near(fit.intercept, 2.2, 1e-3);
  const double half_width = 3.182446305284263 * std::sqrt(2.4 / 3 / 10);
  expect_near(fit.slope_lo, 0.6 - half_width, 1e-3);
  expect_near(fit.slope_hi, 0.6 + half_width, 1e-3);
}

TEST(RankCorrelation, KnownValues) {
  // Ranks 1 2 3 4 5 and 1 2 3 5 4: 1 - 6 * 2 / (5 * 24) = .9; of equal values as scipy.stats.spearmanr has it.
  const RankCorrelation r = rank_correlation({1, 2, 3, 4, 5}, {2, 7, 9, 30, 20});
  EXPECT_EQ(r.n, 5);
  EXPECT_NEAR(r.value, 0.9, 1e-12);
  const double width = 1.959963985 * std::sqrt((1 + 0.405) / 2);
  EXPECT_NEAR(r.lo, std::tanh(std::atanh(0.9) - width), 1e-12);
  EXPECT_NEAR(rank_correlation({1, 1, 2, 3}, {4, 3, 3, 1}).value, -0.8333333333333334, 1e-12);
  EXPECT_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}).value, -1);
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2, 3}, {1, 2, 3}).lo));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 1, 1, 1}, {1, 2, 3, 4}).value));
}

TEST(FitLine, NeedsThreeDistinctX) {
  EXPECT_TRUE(std::isnan(fit_line(points_on({1, 2}, {1, 3})).slope));
  EXPECT_TRUE(std::isnan(fit_line(points_on({1, 2, 2, 1}, {1, 2, 3, 1})).slope));
  EXPECT_TRUE(std::isnan(fit_line({}).slope));
  std::vector<Bracket> censored = points_on({1, 2}, {1, 3});
  censored.push_back({3, 4, inf});  // says where the line is not, alone no third place
  EXPECT_TRUE(std::isnan(fit_line(censored).slope));
}

TEST(FitLine, ALineThroughAllBracketsIsTheirMiddle) {
  const LineFit fit = fit_line({{16, 14, 18}, {32, 30, 34}, {64, 62, 66}, {128, 126, 130}});
  expect_near(fit.slope, 1, 0.01);
  expect_near(fit.intercept, 0, 1);
  EXPECT_LT(fit.slope_lo, fit.slope);
  EXPECT_GT(fit.slope_hi, fit.slope);
  EXPECT_GT(fit.slope_lo, 0.8);
  EXPECT_LT(fit.slope_hi, 1.2);
}

}  // namespace
}  // namespace crosstalk
