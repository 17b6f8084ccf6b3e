// Parts of studies that fit into some time.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace crosstalk::program {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

/// 2 labels, 3 rates, 2 loads, 3 seeds; a run takes as many seconds as it has associations.
struct BudgetOf {
  explicit BudgetOf(double seconds) {
    std::vector<const Run*> runs;
    for (const Run& run : study.runs) runs.push_back(&run);
    TimeForecast time;
    time.seconds_of = [](const std::vector<const Run*>& some) {
      double all = 0;
      for (const Run* run : some) all += static_cast<double>(run->config.get_int("task.associations"));
      return all;
    };
    part = part_within(runs, seconds, time);
  }
  Study study = parse_study(
      "[study]\nname = \"s\"\nseeds = [2, 3, 4]\n[base]\ntask.name = \"recall\"\nmodel.d_key = 4\n[memories.delta]\n"
      "name = \"delta\"\n[memories.softmax]\nname = \"softmax\"\n[[grid]]\nmemory = [\"delta\", \"softmax\"]\n"
      "\"train.learning_rate\" = [1e-4, 1e-3, 3e-2]\n\"task.associations\" = [5, 10]\n",
      "s.toml");
  Part part;
};

TEST(Budget, WholeSeedsComeFirst) {  // 90 s a seed
  EXPECT_THAT(BudgetOf(270).part.where, IsEmpty());
  const BudgetOf two(269.9);
  EXPECT_THAT(two.part.where, ElementsAre(Pair("seed", ElementsAre("2", "3"))));
  EXPECT_EQ(two.part.runs.size(), 24U);
  EXPECT_EQ(two.part.seconds, 180);
}

TEST(Budget,
     OfOneSeedTheRatesInTheMiddleAndThenTheSmallestLoads) {  // 30 s a rate, 10 s of which with 5 associations
  EXPECT_THAT(BudgetOf(60).part.where,
              ElementsAre(Pair("seed", ElementsAre("2")),
                          Pair("train.learning_rate", ElementsAre("0.0001", "0.001"))));
  EXPECT_THAT(BudgetOf(59).part.where.back(), Pair("train.learning_rate", ElementsAre("0.001")));
  const BudgetOf least(29);
  EXPECT_THAT(least.part.where.back(), Pair("task.associations", ElementsAre("5")));
  EXPECT_EQ(least.part.runs.size(), 2U);  // both labels
  EXPECT_EQ(BudgetOf(9).part.seconds, 10) << "more than it may: nothing fits";
}

}  // namespace
}  // namespace crosstalk::program
