// Paired differences: published critical values, an enumeration of all signs, and what is best of several.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/paired.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace crosstalk {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

SeedValues seeds(const std::vector<double>& values) {
  SeedValues out;
  for (std::size_t i = 0; i < values.size(); ++i) out.push_back({std::to_string(i), values[i]});
  return out;
}

/// Wilcoxon's table: of ten pairs a rank sum of 8 is the last at 0.05, of eight 3, of seven 2.
TEST(Paired, SignedRanksHaveThePublishedCriticalValues) {
  const std::vector<double> ten = {1, 2, 3, 4, 5, 6, 7, -8, 9, 10};
  EXPECT_NEAR(signed_rank_p(ten), 0.048828125, 1e-15);
  EXPECT_NEAR(signed_rank_p({1, 2, 3, 4, 5, 6, 7, 8, -9, 10}), 0.064453125, 1e-15);
  EXPECT_NEAR(signed_rank_p({1, 2, -3, 4, 5, 6, 7, 8}), 0.0390625, 1e-15);
  EXPECT_NEAR(signed_rank_p({1, -2, 3, 4, 5, 6, 7}), 0.046875, 1e-15);
  EXPECT_NEAR(signed_rank_p({-1, -2, -3, -4, -5, -6}), 0.03125, 1e-15);
  EXPECT_EQ(signed_rank_p({}), 1);
  EXPECT_EQ(signed_rank_p({5}), 1);
}

/// All 2^n signs of any magnitudes: p <= x has a probability of at most x, ties, zeros and infinities included.
TEST(Paired, SignedRanksErrNoMoreOftenThanTheySay) {
  const std::vector<std::vector<double>> magnitudes = {{1, 2, 3, 4, 5, 6, 7, 8},
                                                       {1, 1, 1, 2, 2, 3, 3, 3},
                                                       {0, 0, 1, 1, 2, 5, 5, inf},
                                                       {1, 2, 3, inf, inf, inf, inf, inf}};
  for (const std::vector<double>& of : magnitudes)
    for (const double bound : {0.01, 0.02, 0.05, 0.1, 0.5}) {
      int at_most = 0;
      for (unsigned signs = 0; signs < 256; ++signs) {
        std::vector<double> values = of;
        for (std::size_t i = 0; i < 8; ++i)
          if ((signs >> i & 1) != 0) values[i] = -values[i];
        at_most += signed_rank_p(values) <= bound;
      }
      EXPECT_LE(at_most, 256 * bound) << of[2] << ", " << bound;
      if (of[0] == 1 && of[1] == 2 && of[4] == 5 && bound == 0.05) {
        EXPECT_EQ(at_most, 10);
      }
    }
}

TEST(Paired, RunsOfOneSeedArePairs) {
  const SeedValues a = {{"3", 30.5}, {"1", 10.25}, {"2", 20.5}, {"9", 0}},
                   b = {{"1", 10}, {"2", 20}, {"3", 31}};
  const Paired smaller = paired(a, b, true), larger = paired(a, b, false);
  EXPECT_EQ(smaller.summary.n, 3);
  EXPECT_EQ(smaller.summary.median, 0.25);
  EXPECT_EQ(smaller.summary.lo, -0.5);
  EXPECT_EQ(smaller.summary.hi, 0.5);
  EXPECT_EQ(smaller.wins, 1);
  EXPECT_EQ(larger.wins, 2);
  EXPECT_EQ(paired(seeds({inf, 1}), seeds({inf, inf}), true).summary.hi, 0) << "two that diverged are equal";
  EXPECT_EQ(paired(a, {}, true).summary.n, 0);
}

TEST(Paired, HolmsCorrection) {
  const std::vector<double> corrected = holm({0.01, 0.04, 0.03, 0.005});
  const double wanted[] = {0.03, 0.06, 0.06, 0.02};
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(corrected[i], wanted[i], 1e-15);
  EXPECT_EQ(holm({0.7, 0.6})[0], 1);
}

TEST(Paired, FewestSeedsAreThoseWithAPSmallEnough) {
  for (const std::size_t comparisons : {1, 2, 3, 12, 100}) {
    const int n = fewest_seeds(comparisons);
    const auto least = [&](int count) {
      return signed_rank_p(std::vector<double>(static_cast<std::size_t>(count), 1));
    };
    EXPECT_LE(least(n) * static_cast<double>(comparisons), kDoubt);
    EXPECT_GT(least(n - 1) * static_cast<double>(comparisons), kDoubt);
  }
  EXPECT_EQ(fewest_seeds(1), 6);
}

TEST(Paired, SeedsToDetectGrowWithTheSpreadAndShrinkWithTheSize) {
  const std::vector<double> spread = {-1, 0, 1, 0.5, -0.5};
  EXPECT_EQ(seeds_to_detect(spread, 1000, 1), 6);
  EXPECT_EQ(seeds_to_detect({1, inf}, 1, 1), 0);
  EXPECT_LT(seeds_to_detect(spread, 1, 1), seeds_to_detect(spread, 0.5, 1));
  EXPECT_LT(seeds_to_detect(spread, 1, 1), seeds_to_detect(spread, 1, 10));
  // sd 1, a shift of 1, 80 %: Student's t takes ten pairs, the interval of a median 14.
  const std::vector<double> unit = {-std::sqrt(0.5), std::sqrt(0.5)};
  EXPECT_EQ(seeds_to_detect(unit, 1, 1), 14);
}

/// Six seeds of three labels: a is best, then b.
std::vector<std::vector<Contender>> three(int count) {
  std::vector<std::vector<Contender>> points(1, std::vector<Contender>(3));
  for (int seed = 0; seed < count; ++seed)
    for (std::size_t label = 0; label < 3; ++label)
      points[0][label].seeds.push_back(
          {std::to_string(seed), 10 * std::sin(seed) + 0.1 * static_cast<double>(label) +
                                     0.01 * std::cos(9 * seed + 4.0 * static_cast<double>(label))});
  return points;
}

TEST(Paired, TheBestIsBetterThanEveryOther) {
  EXPECT_EQ(best_of_points(three(7), true).best, std::vector<int>{0});
  EXPECT_EQ(best_of_points(three(7), false).best, std::vector<int>{2});
  const BestOfPoints few = best_of_points(three(6), true);
  EXPECT_EQ(few.best, std::vector<int>{-1}) << "two comparisons take seven seeds";
  EXPECT_EQ(few.comparisons, 2u);
  EXPECT_EQ(few.most_pairs, 6);
  auto points = three(7);
  points[0][0].solved = points[0][1].solved = true;
  EXPECT_EQ(best_of_points(points, true).best, std::vector<int>{-1});
  points = three(7);
  points[0][1].seeds = points[0][0].seeds;
  EXPECT_EQ(best_of_points(points, true).best, std::vector<int>{-1});
  points = three(10);
  points.resize(5, points[0]);  // Holm over ten
  EXPECT_EQ(best_of_points(points, true).best, std::vector<int>(5, 0));
  points.resize(40, points[0]);
  EXPECT_EQ(best_of_points(points, true).best, std::vector<int>(40, -1));
  EXPECT_EQ(best_of_points({{points[0][0]}, {{}, points[0][0]}}, true).best, (std::vector<int>{-1, -1}))
      << "alone";
}

}  // namespace
}  // namespace crosstalk
