// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/verdict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace crosstalk {
namespace {

/// A language model that was trained for `losses.size()` evaluations, 10 steps apart, of 10 * `most`.
Record run_with(const std::vector<double>& losses, int most) {
  Record record;
  record.id = "ct-1";
  record.steps = 10 * static_cast<std::int64_t>(losses.size());
  record.config = {{"model.name", "language"},
                   {"train.max_steps", 10 * most},
                   {"train.stop_loss", 0.0},
                   {"train.stop_accuracy", 0.99}};
  for (std::size_t i = 0; i < losses.size(); ++i) {
    record.curves["eval_loss"].x.push_back(10. * static_cast<double>(i + 1));
    record.curves["eval_loss"].y.push_back(losses[i]);
  }
  record.eval_loss = losses.empty() ? 1 : losses.back();
  record.eval_accuracy = 0.5;
  record.metrics["chance_accuracy"] = 0.1;
  return record;
}

/// A loss of 1 at first, multiplied by `factor` from each quarter of `n` evaluations to the next.
std::vector<double> quarters(int n, double factor) {
  std::vector<double> losses;
  for (int i = 0; i < n; ++i) losses.push_back(std::pow(factor, 4 * i / n));
  return losses;
}

TEST(Verdict, OfTheLastStepIsReadFromTheLastTwoQuarters) {
  EXPECT_EQ(verdict_of(run_with(quarters(8, 0.96), 8)), Verdict::plateau);
  EXPECT_EQ(verdict_of(run_with(quarters(8, 0.94), 8)), Verdict::still_falling);
  EXPECT_EQ(verdict_of(run_with(quarters(8, 1.04), 8)), Verdict::plateau);
  EXPECT_EQ(verdict_of(run_with(quarters(8, 1.06), 8)), Verdict::rising);
  EXPECT_EQ(verdict_of(run_with(quarters(7, 0.5), 7)), Verdict::out_of_steps);
  EXPECT_EQ(verdict_of(run_with({}, 0)), Verdict::not_trained);
  Record outrun = run_with(quarters(7, 0.5), 7);
  outrun.metrics[kOutrun] = 1;
  EXPECT_EQ(verdict_of(outrun), Verdict::outrun);
  // Where it fell long ago, and one wild evaluation.
  std::vector<double> losses = {9, 8, 7, 6, 5, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 20};
  EXPECT_EQ(verdict_of(run_with(losses, 20)), Verdict::plateau);
  losses[17] = std::nan("");
  EXPECT_EQ(verdict_of(run_with(losses, 20)), Verdict::plateau);
}

TEST(Verdict, OfAnEarlierEndIsTheStopRules) {
  EXPECT_EQ(verdict_of(run_with(quarters(8, 0.5), 9)),
            Verdict::plateau);  // nothing but patience ends it there
  Record solved = run_with(quarters(8, 0.5), 9);
  solved.eval_accuracy = 0.99;
  EXPECT_EQ(verdict_of(solved), Verdict::solved);
  solved.eval_accuracy = 0.989;
  EXPECT_EQ(verdict_of(solved), Verdict::plateau);
  solved.config["train.stop_loss"] = 0.125;  // its last
  EXPECT_EQ(verdict_of(solved), Verdict::solved);
  solved.eval_loss = 0.13;
  EXPECT_EQ(verdict_of(solved), Verdict::plateau);
}

TEST(Verdict, WithoutAStopRuleALanguageModelIsSolvedByItsAccuracy) {
  Record record = run_with(quarters(8, 1), 8);
  record.config["train.stop_accuracy"] = 0.0;
  record.eval_accuracy = 0.99;
  EXPECT_EQ(verdict_of(record), Verdict::solved);
  record.config["model.name"] =
      "retrieval";  // where the largest value is right long before the loss is small
  EXPECT_EQ(verdict_of(record), Verdict::plateau);
}

TEST(Verdict, ChanceIsAPlateauThatKnowsNothing) {
  for (const int most : {8, 20}) {
    Record record = run_with(quarters(8, 1), most);
    record.eval_accuracy = 0.1 + 0.02 * 0.9;
    EXPECT_EQ(verdict_of(record), Verdict::at_chance) << most;
    record.eval_accuracy += 1e-6;
    EXPECT_EQ(verdict_of(record), Verdict::plateau) << most;
    record.metrics.clear();
    EXPECT_EQ(verdict_of(record), Verdict::plateau) << most;
  }
  Record falling = run_with(quarters(8, 0.5), 8);
  falling.eval_accuracy = 0.1;
  EXPECT_EQ(verdict_of(falling), Verdict::still_falling);
}

TEST(Verdict, NeedsNoSlopeAtChanceOrBelow) {
  Record few = run_with(quarters(3, 1), 3);
  EXPECT_EQ(verdict_of(few), Verdict::out_of_steps);
  few.eval_accuracy = 0.1;
  EXPECT_EQ(verdict_of(few), Verdict::at_chance);
  for (const int evaluations : {1, 8}) {
    Record worse = run_with(quarters(evaluations, 0.5), evaluations);
    worse.metrics["constant_loss"] = 0.5;
    worse.eval_loss = 1.05 * 0.5;
    EXPECT_NE(verdict_of(worse), Verdict::worse_than_nothing);
    worse.eval_loss = 1.28e4;
    EXPECT_EQ(verdict_of(worse), Verdict::worse_than_nothing);
    EXPECT_FALSE(verdict_needs_curve(worse));
    worse.metrics = {{"chance_loss", 3.0}, {"chance_accuracy", 0.1}};
    worse.eval_loss = 4;
    EXPECT_NE(verdict_of(worse), Verdict::worse_than_nothing);  // often right, and very sure where it is not
    worse.eval_accuracy = 0.1;
    EXPECT_EQ(verdict_of(worse), Verdict::worse_than_nothing);
    worse.eval_accuracy = 0.99;
    EXPECT_EQ(verdict_of(worse), Verdict::solved);
  }
}

// The evaluation that ends the stage before is of another task.
TEST(Verdict, LeavesOutTheEvaluationAtTheEndOfTheStageBefore) {
  Record record = run_with({9, 1, 1, 1, 1, 1, 1, 1}, 8);
  record.profiles["steps_by_stage"] = {{1, 2}, {10, 70}};
  EXPECT_EQ(verdict_of(record), Verdict::out_of_steps);  // seven
  record.profiles["steps_by_stage"] = {{1, 2}, {9, 71}};
  EXPECT_EQ(verdict_of(record), Verdict::plateau);
}

TEST(Verdict, ReadsTheLastStageOfACurriculumOnly) {
  std::vector<double> losses = quarters(8, 0.5);
  losses.insert(losses.end(), 8, 0.3);
  Record record = run_with(losses, 16);
  EXPECT_EQ(verdict_of(record), Verdict::plateau);
  record.profiles["steps_by_stage"] = {{1, 2}, {80, 80}};
  EXPECT_EQ(verdict_of(record), Verdict::plateau);
  record.profiles["steps_by_stage"] = {{1, 2}, {100, 60}};  // six evaluations since
  EXPECT_EQ(verdict_of(record), Verdict::out_of_steps);
}

TEST(Verdict, OfStatusComesFirst) {
  Record record = run_with(quarters(8, 1), 8);
  record.status = RunStatus::diverged;
  EXPECT_EQ(verdict_of(record), Verdict::diverged);
  record.status = RunStatus::failed;
  EXPECT_EQ(verdict_of(record), Verdict::failed);
  record.status = RunStatus::done;
  record.eval_loss = std::nan("");
  record.best_eval_loss = 1;
  EXPECT_EQ(verdict_of(record), Verdict::diverged);
}

TEST(Verdict, NeedsTheCurveOfRunsThatWentToTheirLastStep) {
  EXPECT_TRUE(verdict_needs_curve(run_with(quarters(8, 1), 8)));
  EXPECT_FALSE(verdict_needs_curve(run_with(quarters(8, 1), 9)));
  Record solved = run_with(quarters(8, 1), 8);
  solved.eval_accuracy = 1;
  EXPECT_FALSE(verdict_needs_curve(solved));
}

TEST(Verdict, OfATableIsTheTables) {
  Record record = run_with({}, 8);
  record.steps = 80;
  EXPECT_EQ(verdict_of(record), Verdict::out_of_steps);
  record.provenance = {{"verdict", "still_falling"}};
  EXPECT_EQ(verdict_of(record), Verdict::still_falling);
  record.provenance = {{"verdict", "fine"}};
  EXPECT_EQ(verdict_of(record), Verdict::out_of_steps);
  record.steps = 0;
  record.config = {};
  EXPECT_EQ(verdict_of(record), Verdict::unknown);
}

TEST(Verdict, Names) {
  std::set<std::string> names;
  for (const Verdict verdict : verdicts()) names.insert(to_text(verdict));
  EXPECT_EQ(names.size(), 12u);
  EXPECT_EQ(counted({{Verdict::at_chance, 2}, {Verdict::solved, 1}}),
            (std::vector<std::string>{"1 solved", "2 at chance"}));
}

}  // namespace
}  // namespace crosstalk
