// Budgets from runs that are made up.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/pilot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace crosstalk::program {
namespace {

using ::testing::ElementsAre;

TEST(Pilot, TheHardestPointHasTheLargestLoadInTheLeastRoom) {
  const Study study = parse_study(
      "[study]\nname = \"s\"\n[base]\ntask.name = \"mqar\"\nmodel.name = \"language\"\n[memories.delta]\nname = \"delta\"\n"
      "[memories.softmax]\nname = \"softmax\"\n[[grid]]\nmemory = [\"delta\", \"softmax\"]\n\"task.pairs\" = [8, 16]\n"
      "\"model.width\" = [32, 64]\n\"train.learning_rate\" = [1e-3, 1e-2]\n",
      "s.toml");
  const Extremes found = extremes_of(study.runs);
  ASSERT_EQ(found.easiest.size(), 4U);  // two labels, two rates
  ASSERT_EQ(found.hardest.size(), 4U);
  for (const auto* run : found.easiest) {
    EXPECT_EQ(run->config.get_int("task.pairs"), 8);
    EXPECT_EQ(run->config.get_int("model.width"), 64);
  }
  for (const auto* run : found.hardest) {
    EXPECT_EQ(run->config.get_int("task.pairs"), 16);
    EXPECT_EQ(run->config.get_int("model.width"), 32);
  }
}

Record record(double rate, std::vector<double> losses, double accuracy) {
  Record record;
  record.label = "delta";
  record.config = {{"train.learning_rate", rate},
                   {"train.stop_accuracy", 0.99},
                   {"train.max_steps", 10000},
                   {"model.name", "language"}};
  Series& loss = record.curves["eval_loss"];
  for (std::size_t i = 0; i < losses.size(); ++i) loss.x.push_back(100. * static_cast<double>(i + 1));
  loss.y = losses;
  record.steps = static_cast<std::int64_t>(loss.x.back());
  record.eval_loss = losses.back();
  record.best_eval_loss = *std::ranges::min_element(losses);
  record.eval_accuracy = accuracy;
  return record;
}

TEST(Pilot, StepsNeededEndWhereNothingMoreIsLearnt) {
  EXPECT_EQ(steps_needed(record(1e-3, {4, 3, 1, 0.1}, 0.995)), 400);  // solved
  EXPECT_EQ(steps_needed(record(1e-3, {4, 3, 1.1, 1, 1, 1, 1, 1}, 0.6)), 300);
}

TEST(Pilot, TheBudgetIsThatOfTheSlowestAtItsBestRate) {
  const Record slow = record(1e-3, {4, 4, 3, 3, 2, 2, 1, 0.1}, 0.995),
               fast = record(3e-3, {4, 3, 1, 0.1}, 0.995), lost = record(1e-2, {4, 4, 4, 4}, 0.1);
  const std::vector<Tried> hard = by_success({&lost, &slow, &fast}), easy = by_success({&lost});
  EXPECT_EQ(hard[0].rate, 3e-3);
  EXPECT_EQ(hard[2].rate, 1e-2);
  const Budget budget = budget_of({hard}, {1e-3, 3e-3, 1e-2});
  EXPECT_EQ(budget.steps, 800);  // twice 400
  EXPECT_EQ(budget.every, 40);
  EXPECT_THAT(budget.rates, ElementsAre(1e-3, 3e-3));  // twice as slow is near enough
  EXPECT_TRUE(budget.edges.empty());
  EXPECT_EQ(budget_of({easy}, {1e-3, 1e-2}).edges.size(), 1U);
}

}  // namespace
}  // namespace crosstalk::program
