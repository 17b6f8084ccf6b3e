// What a plan warns of and says besides its counts.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/file_example.h"

namespace crosstalk::program {
namespace {

using ::testing::HasSubstr;

std::string warning_of(const std::string& folder) {
  const Study study = parse_study(
      fmt::format("[study]\nname = \"s\"\n[base]\ntask.name = \"tokens\"\ntask.folder = \"{}\"\nmodel.name = "
                  "\"language\"\n[memories.delta]\nname = \"delta\"\n",
                  folder),
      "s.toml");
  std::vector<const Run*> runs;
  for (const Run& run : study.runs) runs.push_back(&run);
  return unseen_in_training(runs);
}

// Tokens and labels that only the test split has cannot be learned, and nothing else would say so.
TEST(Plan, WarnsOfTokensAndLabelsThatTrainingNeverHas) {
  const testing::ExampleFolder folder;
  testing::ExampleTokens files = testing::example_tokens(1, 96, 12);
  for (const char* split : {"train", "eval", "test"}) testing::write_example(folder.path(), split, files);
  EXPECT_EQ(warning_of(folder.path()), "") << "equal splits";
  files.inputs.data[3] = 91;
  std::size_t label = 0;
  while (files.labels.data[label] < 0) ++label;
  files.labels.data[label] = 77;
  testing::write_example(folder.path(), "test", files);
  EXPECT_THAT(warning_of(folder.path()),
              HasSubstr("1 token (91) and 1 answer (77) of test never come in training"));
}

}  // namespace
}  // namespace crosstalk::program
