// What bench computes, against numbers done by hand.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/bench.h"

#include <gtest/gtest.h>

#include <cmath>

namespace crosstalk::program {
namespace {

Run run_of(const std::string& task, int load, const std::string& memory) {
  const Study study = parse_study("[study]\nname = \"s\"\nseeds = [1]\n[base]\ntask.name = \"" + task +
                                      "\"\ntask.associations = " + std::to_string(load) +
                                      "\nmodel.d_key = 64\ntrain.batch = 32\n[memories.m]\n" + memory + "\n",
                                  "s.toml");
  return study.runs.at(0);
}

// 100 keys, embedding 220: 6 100 220 64 = 8.448e6, 6 32 220 64 = 2.7034e6.
TEST(Bench, FlopsOfAStepAreThoseOfTheFormula) {
  const double tables = 8.448e6 + 2.70336e6;
  EXPECT_DOUBLE_EQ(step_flops(run_of("recall", 100, "name = \"linear_attention\"")),
                   tables + 6. * 64 * 32 * 100);
  EXPECT_DOUBLE_EQ(step_flops(run_of("recall", 100, "name = \"softmax\"")), tables + 6. * 64 * 32 * 100);
  EXPECT_DOUBLE_EQ(step_flops(run_of("reassign", 100, "name = \"delta\"\nfeature_map = \"dpfp\"\nnu = 1")),
                   tables + 14. * 128 * 32 * 200);
  EXPECT_DOUBLE_EQ(step_flops(run_of("recall", 100, "name = \"retnet\"")), tables + 6. * 64 * 32 * 100);
  EXPECT_DOUBLE_EQ(step_flops(run_of("recall", 100, "name = \"kda\"")), tables + 18. * 64 * 32 * 100);
  // A state of 100 x 64 numbers is formed, whatever is asked, with its norm: as its law counts them.
  const double fwm = tables + 27. * 64 * 100 * 32 * 100;
  EXPECT_NEAR(step_flops(run_of("recall", 100, "name = \"fwm\"")), fwm, 0.01 * fwm);
}

TEST(Bench, RunsDifferInSeedsOnlyAndDoNotStopEarly) {
  const crosstalk::Run run = run_of("recall", 10, "name = \"softmax\"");
  const crosstalk::Run a = bench_run(run, 1, 30, 4), b = bench_run(run, 2, 30, 4);
  EXPECT_NE(a.id, b.id);
  EXPECT_EQ(a.config.get_int("train.max_steps"), 120);
  EXPECT_EQ(a.config.get_int("eval.every"), 30);
  EXPECT_EQ(a.config.get_double("train.stop_loss"), 0);
  Options same = b.config;
  for (const char* key : {"seed", "data_seed", "init_seed"}) same.set(key, std::int64_t{1});
  EXPECT_EQ(same, a.config);
}

// A clock of a step of 2 ms and 3 s of evaluation.
TEST(Bench, EvaluationsAreTakenOut) {
  std::vector<std::int64_t> asked;
  const auto interval = [&](std::int64_t n) {
    asked.push_back(n);
    return 3 + 0.002 * static_cast<double>(n);
  };
  const StepTime fixed = measure_steps(interval, 7, 1);
  EXPECT_EQ(fixed.steps, 7);
  EXPECT_NEAR(fixed.seconds, 0.014, 1e-12);
  EXPECT_EQ(asked, (std::vector<std::int64_t>{7, 14}));
  asked.clear();
  const StepTime grown = measure_steps(interval, 0, 1);
  EXPECT_GE(grown.seconds, 1);
  EXPECT_EQ(grown.steps % 10, 0);
  EXPECT_NEAR(grown.seconds / static_cast<double>(grown.steps), 0.002, 1e-12);
  EXPECT_LT(asked.size(), 10u);
}

// What comes before the first evaluation is preparation, and one interval that takes long says nothing of the others.
TEST(Bench, AnIntervalIsTheMedianOfThoseBetweenEvaluations) {
  EXPECT_DOUBLE_EQ(typical_interval({{100, 102, 113, 115}}), 2);
  EXPECT_TRUE(std::isnan(typical_interval({{100}})));
  EXPECT_TRUE(std::isnan(typical_interval({{}})));
}

// The second stream trains alone until 20 and slows the first one down from then on; at 28 the first has ended.
TEST(Bench, OnlyWhatLiesSideBySideCountsWhereStreamsDo) {
  EXPECT_DOUBLE_EQ(typical_interval({{20, 24, 28}, {10, 12, 14, 16, 20, 24, 28, 30, 32, 34}}), 4);
  EXPECT_DOUBLE_EQ(typical_interval({{1, 2, 3}, {4, 5, 6}}), 1);  // never side by side
}

TEST(Bench, ATrainingThatFailsHasNoTime) {
  const StepTime none = measure_steps([](std::int64_t) { return std::nan(""); }, 0, 1);
  EXPECT_EQ(none.seconds, 0);
}

}  // namespace
}  // namespace crosstalk::program
