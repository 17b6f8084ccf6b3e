// What cannot be trained is refused when the study is read, where it stands.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// What is wrong with a study of MQAR at 8 pairs and 32 tokens, with learned positions.
std::string refusal(const std::string& lines) {
  const std::string study =
      "[study]\nname = \"positions\"\n[base]\nmodel.name = \"language\"\nmodel.positions = \"learned\"\n" +
      lines + "\n[memories.softmax]\nname = \"softmax\"\n";
  return crosstalk::testing::refusal_of<ConfigError>([&] { parse_study(study, "s.toml"); });
}

TEST(Options, LearnedPositionsMustReachTheEndOfEverySequence) {
  const std::string mqar = "task.name = \"mqar\"\ntask.pairs = 8\ntask.length = 32";
  EXPECT_EQ(refusal("model.max_length = 32\n" + mqar), "");
  EXPECT_EQ(
      refusal("model.max_length = 31\n" + mqar),
      "s.toml:6:1: model.max_length = 31 is less than the 32 tokens of the longest sequence of training, validation and test; give at least 32");
  const std::string mixture = mqar + "\ntask.test_segments = \"32:8:10 64:8:10\"";
  EXPECT_EQ(refusal("model.max_length = 64\n" + mixture), "");
  EXPECT_THAT(refusal("model.max_length = 63\n" + mixture), HasSubstr("s.toml:6:1: model.max_length = 63"));
  const std::string words = "task.name = \"words\"\ntask.curriculum = \"4 8\"\neval.length_factors = \"1 4\"";
  EXPECT_THAT(refusal("model.max_length = 16\n" + words),
              HasSubstr("model.max_length = 16 is less than the 32"));
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

TEST(Options, PrefixesLongerThanTheLongestSequenceAreRefused) {
  const std::string words = "model.max_length = 32\ntask.name = \"words\"\ntask.length = 8\n",
                    factors = "eval.length_factors = \"1 2\"\n";
  EXPECT_EQ(refusal(words + factors + "eval.prefixes = \"3 16\""), "");
  EXPECT_THAT(refusal(words + factors + "eval.prefixes = \"3 17\""), HasSubstr("have 16 answers"));
  EXPECT_THAT(refusal(words + factors + "eval.prefixes = \"3 2\""), HasSubstr("\"2\" does not fit"));
  EXPECT_THAT(refusal(words + "eval.prefixes = \"3\""), HasSubstr("set eval.length_factors"));
}

TEST(Options, SchedulesThatCannotBeAreRefused) {
  const std::string words =
      "model.max_length = 32\ntask.name = \"words\"\ntask.curriculum = \"4 8\"\ntrain.max_steps = 100\n";
  const std::string scheduled = words + "train.promote = \"schedule\"\n";
  EXPECT_EQ(refusal(scheduled + "eval.every = 50"), "");
  EXPECT_THAT(refusal(scheduled + "eval.every = 51"),
              HasSubstr("eval.every = 51, but each of 2 stages has 50 steps of train.max_steps = 100"));
  EXPECT_THAT(refusal("model.max_length = 64\ntask.name = \"mqar\"\ntrain.promote = \"schedule\""),
              HasSubstr("task mqar has no curriculum"));
  EXPECT_THAT(refusal(words + "train.warmup_steps = 3\ntrain.warmup_share = 0.1"), HasSubstr("say the same"));
  EXPECT_THAT(refusal(words + "train.least_rate = 0.1"),
              HasSubstr("belongs to train.schedule = \"cosine\", \"cosine_epoch\", \"linear\" and \"wsd\""));
  EXPECT_THAT(refusal(words + "train.schedule = \"one_cycle\""),
              HasSubstr("needs from 2 to 99 steps of warm-up of its 100"));
  EXPECT_EQ(refusal(words + "train.schedule = \"one_cycle\"\ntrain.warmup_share = 0.1"), "");
  EXPECT_THAT(
      refusal(words + "train.schedule = \"one_cycle\"\ntrain.warmup_share = 0.01"),
      HasSubstr(
          "train.warmup_share = 0.01 of train.max_steps = 100 is 1 step of warm-up, and train.schedule = "
          "\"one_cycle\" needs two; give at least 150 steps"));
  const std::string mqar = "model.max_length = 64\ntask.name = \"mqar\"\ntrain.schedule = \"one_cycle\"\n";
  EXPECT_EQ(refusal(mqar + "train.max_steps = 150\ntrain.warmup_share = 0.01"), "");
  EXPECT_THAT(refusal(mqar + "train.max_steps = 2\ntrain.warmup_share = 0.5"),
              HasSubstr("train.max_steps = 2, but train.schedule = \"one_cycle\" needs at least 3"));
}

}  // namespace
}  // namespace crosstalk
