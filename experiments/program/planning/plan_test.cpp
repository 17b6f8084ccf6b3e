// What a plan warns of and says besides its counts.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/program/planning/budget.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::program {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::vector<std::string> warnings_with(const std::string& base) {
  const Study study = parse_study(
      fmt::format("[study]\nname = \"s\"\n[base]\n{}\n[memories.delta]\nname = \"delta\"\n", base), "s.toml");
  std::vector<const Run*> runs;
  for (const Run& run : study.runs) runs.push_back(&run);
  return warnings_of(runs);
}

std::vector<std::string> warnings_in(const std::string& folder) {
  return warnings_with(
      fmt::format("task.name = \"tokens\"\ntask.folder = \"{}\"\nmodel.name = \"language\"", folder));
}

TEST(Plan, WarnsOfAWarmUpThatNeverEnds) {
  const std::string base =
      "task.name = \"recall\"\nmodel.d_key = 4\neval.every = 5\ntrain.max_steps = 40\ntrain.warmup_steps = ";
  EXPECT_THAT(warnings_with(base + "39"), ::testing::IsEmpty());
  EXPECT_THAT(warnings_with(base + "40"),
              ::testing::ElementsAre(HasSubstr("never comes to train.learning_rate")));
}

TEST(Plan, WarnsOfTooFewEvaluationsToTellASlope) {
  const std::string base = "task.name = \"recall\"\nmodel.d_key = 4\ntrain.max_steps = 800\neval.every = ";
  EXPECT_THAT(warnings_with(base + "100"), ::testing::IsEmpty());
  EXPECT_THAT(warnings_with(base + "101"),
              ::testing::ElementsAre(HasSubstr("1 of 1 run has only 7 evaluations")));
}

TEST(Plan, WarnsOfALawThatGrows) {
  const Study study = parse_study(
      "[study]\nname = \"s\"\n[base]\ntask.name = \"recall\"\nmodel.d_key = 4\n[memories.mine]\nname = \"rule\"\n"
      "law = \"S = c S + v k^T; read S q\"\nc = 1\n[[grid]]\n\"memory.c\" = [0.5, 1.5]\n",
      "s.toml");
  std::vector<const crosstalk::Run*> runs;
  for (const crosstalk::Run& run : study.runs) runs.push_back(&run);
  EXPECT_THAT(warnings_of(runs),
              ::testing::ElementsAre(::testing::StartsWith("mine: what S holds is multiplied by 1.5")));
}

// What is told of arrays (tasks/data_look_test.cpp) is told here, once for each folder.
TEST(Plan, WarnsOfTokensAndLabelsThatTrainingNeverHas) {
  const testing::ExampleFolder folder;
  std::uint64_t seed = 1;
  testing::ExampleTokens files;
  for (const char* split : {"train", "eval", "test"})
    testing::write_example(folder.path(), split, files = testing::example_tokens(seed++, 96, 12));
  EXPECT_THAT(warnings_in(folder.path()), ::testing::IsEmpty());
  files.inputs.data[3] = 21;
  std::size_t label = 0;
  while (files.labels.data[label] < 0) ++label;
  files.labels.data[label] = 17;
  testing::write_example(folder.path(), "test", files);
  EXPECT_THAT(
      warnings_in(folder.path()),
      ::testing::ElementsAre(HasSubstr("1 token (21) and 1 answer (17) of test never come in training")));
}

// 2 labels, 3 rates, 2 loads, 3 seeds of 90 s: a run takes as many seconds as it has associations.
TEST(Plan, OfABudgetTakesWholeSeedsThenRatesInTheMiddleThenTheSmallestLoads) {
  const Study study = parse_study(
      "[study]\nname = \"s\"\nseeds = [2, 3, 4]\n[base]\ntask.name = \"recall\"\nmodel.d_key = 4\n[memories.delta]\n"
      "name = \"delta\"\n[memories.softmax]\nname = \"softmax\"\n[[grid]]\nmemory = [\"delta\", \"softmax\"]\n"
      "\"train.learning_rate\" = [1e-4, 1e-3, 3e-2]\n\"task.associations\" = [5, 10]\n",
      "s.toml");
  std::vector<const crosstalk::Run*> runs;
  for (const crosstalk::Run& run : study.runs) runs.push_back(&run);
  TimeForecast time;
  time.seconds_of = [](const std::vector<const crosstalk::Run*>& some) {
    double all = 0;
    for (const crosstalk::Run* run : some)
      all += static_cast<double>(run->config.get_int("task.associations"));
    return all;
  };
  const auto within = [&](double seconds) { return part_within(runs, seconds, time); };
  EXPECT_TRUE(within(270).where.empty());
  EXPECT_THAT(within(269).where, ElementsAre(Pair("seed", ElementsAre("2", "3"))));
  EXPECT_EQ(within(269).runs.size(), 24U);
  EXPECT_EQ(within(269).seconds, 180);
  EXPECT_THAT(within(60).where, ElementsAre(Pair("seed", ElementsAre("2")),
                                            Pair("train.learning_rate", ElementsAre("0.0001", "0.001"))));
  EXPECT_THAT(within(59).where.back(), Pair("train.learning_rate", ElementsAre("0.001")));
  EXPECT_THAT(within(29).where.back(), Pair("task.associations", ElementsAre("5")));
  EXPECT_EQ(within(9).seconds, 10) << "both labels, and more than it may: nothing fits";
}

}  // namespace
}  // namespace crosstalk::program
