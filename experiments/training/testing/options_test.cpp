// What cannot be trained is refused when the study is read, where it stands.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "results/test_refusal.h"
#include "results/test_said.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What is said of the options in a [base], of which the first line is short for several, and of the memory below it.
TEST(Options, SayWhatIsWrong) {
  const std::map<std::string, std::string> bases = {
      {"(recall)\n", "task.name = \"recall\"\ntask.associations = 4\n"},
      {"(tokens)\n",
       "task.name = \"mqar\"\ntask.length = 32\ntask.pairs = 4\nmodel.name = \"language\"\nmodel.width = 8\n"},
      {"(positions)\n", "model.name = \"language\"\nmodel.positions = \"learned\"\n"}};
  crosstalk::testing::check_said(
      CROSSTALK_SOURCE_DIR "/experiments/training/testing/options_errors.txt", [&](const std::string& text) {
        const std::size_t end = text.find('\n') + 1;
        std::string study = "[study]\nname = \"test\"\nseeds = [1]\n[base]\n" +
                            bases.at(text.substr(0, end)) + text.substr(end);
        if (study.find("[memories.") == study.npos) study += "[memories.m]\nname = \"linear_attention\"\n";
        return crosstalk::testing::refusal_of<ConfigError>([&] { parse_study(study, "x.toml"); }, "read");
      });
}

// Levels of 2^15 tokens: the memory itself would say so in the middle of a study.
TEST(Options, MemoriesByLevelsReadNoLongerSequences) {
  const auto refused = [](const std::string& memory, int associations) {
    return crosstalk::testing::refusal_of<ConfigError>([&] {
      parse_study("[study]\nname = \"levels\"\n[base]\ntask.name = \"recall\"\ntask.associations = " +
                      std::to_string(associations) + "\n[memories.levels]\nname = \"" + memory + "\"\n",
                  "s.toml");
    });
  };
  for (const std::string memory : {"log_linear_attention", "log_linear_gated_delta"}) {
    EXPECT_EQ(refused(memory, 32768), "");
    EXPECT_EQ(
        refused(memory, 32769),
        "s.toml:7:1: " + memory +
            " reads at most 32768 tokens, and here are 32769; give shorter sequences or another memory");
  }
  EXPECT_EQ(refused("linear_attention", 32769), "");
}

// model.parts = "equal": the same map and norms for all memories, of which labels then differ in their update rules alone.
TEST(Options, EqualPartsAreThoseOfEveryMemoryThatHasThem) {
  const std::string base = "[study]\nname = \"equal\"\n[base]\ntask.name = \"recall\"\n";
  const auto run = [&](const std::string& parts, const std::string& memory) {
    return parse_study(base + parts + "[memories.m]\n" + memory, "s.toml").runs.at(0);
  };
  const std::string equal = "model.parts = \"equal\"\n";
  int memories = 0;
  for (const SchemaMemory& memory : default_schema().memories) {
    const std::string name = "name = \"" + memory.name + "\"\n";
    std::string by_hand;
    for (const auto& [key, value] : memory.equal)
      by_hand += key.substr(7) + " = \"" + std::get<std::string>(value) + "\"\n";
    if (by_hand.empty()) continue;
    SCOPED_TRACE(memory.name);
    crosstalk::Run equals;
    try {
      equals = run(equal, name);
    } catch (const ConfigError& error) {  // a memory that the retrieval model does not have
      EXPECT_THAT(error.what(), Not(HasSubstr("model.parts")));
      EXPECT_THROW(run("", name + by_hand), ConfigError);
      continue;
    }
    ++memories;
    EXPECT_EQ(equals.id, run("", name + by_hand).id);
    for (const auto& [part, value] : {std::pair{"memory.feature_map", "identity"},
                                      {"memory.key_norm", "l2"},
                                      {"memory.read_norm", "none"}})
      if (equals.config.has(part)) {
        EXPECT_EQ(equals.config.get_string(part), value);
      }
  }
  EXPECT_GT(memories, 30);
  const crosstalk::Run said =
      run(equal, "name = \"deltanet\"\nfeature_map = \"silu\"\n");  // the table has the last word
  EXPECT_EQ(said.id, run("", "name = \"deltanet\"\n").id);
  EXPECT_NE(said.id, run(equal, "name = \"deltanet\"\n").id);
  const auto refused = [&](const std::string& lines, const std::string& memory) {
    return crosstalk::testing::refusal_of<ConfigError>([&] { run(lines, memory); });
  };
  EXPECT_THAT(refused(equal, "name = \"softmax\"\n"), HasSubstr("s.toml:5:1: model.parts has no effect"));
  EXPECT_THAT(refused(equal + "model.layer = \"published\"\n", "name = \"deltanet\"\n"),
              HasSubstr("leave one of them out"));
}

std::string read(const std::string& base, const std::string& memory, const std::string& grid = "",
                 const std::string& seeds = "[1]") {
  return crosstalk::testing::refusal_of<ConfigError>(
      [&] {
        parse_study("[study]\nname = \"test\"\nseeds = " + seeds + "\n[base]\n" + base + "\n[memories.m]\n" +
                        memory + "\n[[grid]]\nmemory = [\"m\"]\n" + grid,
                    "x.toml");
      },
      "read");
}

const std::string kSum = "name = \"linear_attention\"\n";

void expect(const std::string& told, const std::string& base, const std::string& memory,
            const std::string& grid = "", const std::string& seeds = "[1]") {
  const std::string found = read(base, memory, grid, seeds);
  const bool as_told = told == "read" ? found == told : found.find(told) != std::string::npos;
  EXPECT_TRUE(as_told) << found << "\nwhere this was due: " << told;
}

TEST(Options, OfFilesAndSeedsWithoutEffect) {
  const crosstalk::testing::ExampleFolder folder, real;
  for (const char* split : {"train", "eval", "test"}) {
    crosstalk::testing::write_example(folder.path(), split, crosstalk::testing::example_files(7, 20, 8));
    crosstalk::testing::write_examples<double>(real.path(), split, 6, 5, 3, false);
  }
  const auto file = [](const crosstalk::testing::ExampleFolder& where) {
    return "task.name = \"file\"\neval.sequences = 6\ntask.folder = \"" + where.path() + "\"\n";
  };
  expect("task.keys has no effect on the examples of", file(real) + "task.keys = 3\n", kSum);
  expect("task.values has no effect on the examples of", file(real) + "task.values = 3\n", kSum);
  const std::string same = file(folder) + "init_seed = 3\ntask.order = ";
  expect(
      "3:1: init_seed is fixed, and task.order = \"file\" draws nothing, so 2 seeds would be 2 times the same training; "
      "set task.order = \"shuffled\", or give one seed",
      same + "\"file\"\n", kSum, "", "[1, 2]");
  expect(
      "task.order = \"file\" draws nothing, so 2 values of data_seed would be 2 times the same training; take one",
      same + "\"file\"\n", kSum, "[[grid]]\ndata_seed = [1, 2]\n");
  expect("read", same + "\"file\"\n", kSum);
  expect("read", same + "\"shuffled\"\n", kSum, "", "[1, 2]");
  expect("read", same + "\"file\"\n", kSum + "feature_map = \"favor\"\n", "", "[1, 2]");
}

}  // namespace
}  // namespace crosstalk
