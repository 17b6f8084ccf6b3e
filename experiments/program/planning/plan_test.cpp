// What a plan warns of and says besides its counts.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/planning/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/kinds/file_example.h"

namespace crosstalk::program {
namespace {

using ::testing::HasSubstr;

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

}  // namespace
}  // namespace crosstalk::program
