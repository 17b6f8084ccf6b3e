// What stays of a population, and what the front is.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/population.h"

#include <gtest/gtest.h>

namespace crosstalk::search {
namespace {

Candidate candidate(int number, int generation, double score, double operations, bool engines = true) {
  Candidate one;
  one.number = number, one.generation = generation, one.score = score, one.stage = Stage::whole;
  one.price.operations = operations, one.price.engines = engines;
  return one;
}

std::vector<int> numbers(const std::vector<Candidate>& all, const std::vector<std::size_t>& places) {
  std::vector<int> out;
  for (const std::size_t place : places) out.push_back(all[place].number);
  return out;
}

TEST(Population, TheFrontHasWhatNothingBeatsAtItsCost) {
  std::vector<Candidate> all = {candidate(1, 0, -1, 100), candidate(2, 0, -4, 500),
                                candidate(3, 0, -2, 600), candidate(4, 0, -4, 400),
                                candidate(5, 0, -9, 1),   candidate(6, 0, -3, 90, false)};
  all[4].stage = Stage::third;  // not tried to the end
  // 6 runs token after token: 540.
  EXPECT_EQ(numbers(all, front(all)), (std::vector<int>{4, 1}));
  all[5].price.engines = true;
  EXPECT_EQ(numbers(all, front(all)), (std::vector<int>{4, 6}));
}

TEST(Population, LawsLeaveByAgeAndTheBestStays) {
  const std::vector<Candidate> all = {candidate(1, 0, -5, 1), candidate(2, 1, -4, 1), candidate(3, 4, -1, 1),
                                      candidate(4, 3, -3, 1), candidate(5, 4, -2, 1)};
  std::vector<int> left;
  for (const Candidate& one : survivors(all, 4, 3, 3)) left.push_back(one.number);
  EXPECT_EQ(left, (std::vector<int>{1, 4, 5}));  // 2 is too old, 3 beyond the size
}

TEST(Population, AnIntervalIsStudents) {
  const Interval two = interval({1, 3}, 0.95);
  EXPECT_DOUBLE_EQ(two.mean, 2);
  EXPECT_NEAR(two.half, 12.7062, 1e-4);  // t of one degree of freedom, standard error 1
  EXPECT_NEAR(interval({1, 3}, 0.99).half, 63.6567, 1e-4);
  EXPECT_EQ(interval({1}, 0.95).half, std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace crosstalk::search
