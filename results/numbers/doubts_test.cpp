// What makes one doubt a comparison: runs within the noise of chance, and labels that differ in more than what is swept.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <deque>
#include <limits>

#include "results/numbers/chance.h"
#include "results/numbers/unequal.h"

namespace crosstalk {
namespace {

const AnswersOf kThousand = [](const Record&, const std::string&) { return 1000; };

Record guessing(double accuracy) {
  Record record;
  record.id = std::string("ct-1");
  record.label = std::string("a");
  record.config = {{"train.max_steps", 100}};
  record.eval_accuracy = accuracy;
  record.eval_loss = record.best_eval_loss = 3.4;
  record.metrics = {{"chance_accuracy", 1. / 32}, {"chance_loss", 3.4657}};
  return record;
}

// Of 1,000 answers 31.25 are right by chance, with a deviation of 5.5: 42 lie within two of it, 43 do not.
TEST(Chance, NoiseIsThatOfTheNumberOfAnswers) {
  EXPECT_EQ(is_within_chance(guessing(0.042), "eval_loss", kThousand), true);
  EXPECT_EQ(is_within_chance(guessing(0.043), "eval_loss", kThousand), false);
  EXPECT_EQ(is_within_chance(guessing(0.043), "eval_loss", {}),
            true);  // the margin, where the number is not known
  EXPECT_EQ(is_within_chance(guessing(0.06), "eval_loss", {}), false);
  EXPECT_EQ(is_within_chance(guessing(0), "eval_loss", kThousand), true);
}

TEST(Chance, IsReadOnTheSplitOfTheMetric) {
  Record record = guessing(0.03);
  record.metrics["test_accuracy"] = 0.9;
  EXPECT_EQ(is_within_chance(record, "test_loss", kThousand), false);
  EXPECT_EQ(is_within_chance(record, "eval_accuracy", kThousand), true);
}

TEST(Chance, LossSpeaksWhereThereIsNoAccuracy) {
  Record record = guessing(std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(is_within_chance(record, "", {}), true);
  record.eval_loss = 3.2;
  EXPECT_EQ(is_within_chance(record, "", {}), false);
  record.metrics.clear();
  EXPECT_EQ(is_within_chance(record, "", {}), std::nullopt);
}

TEST(Chance, SaysNothingOfProbesAndFailures) {
  Record record = guessing(0.03);
  record.config["train.max_steps"] = 0;
  EXPECT_EQ(is_within_chance(record, "", kThousand), std::nullopt);
  record = guessing(0.03);
  record.status = RunStatus::diverged;
  EXPECT_EQ(is_within_chance(record, "", kThousand), std::nullopt);
}

TEST(Chance, IsNamedWithTheRunsWithinItsNoise) {
  std::deque<Record> records;
  RecordList list;
  for (int i = 0; i < 54; ++i) {
    records.push_back(guessing(i < 45 ? 0.03 : 0.5));
    list.push_back(&records.back());
  }
  EXPECT_EQ(chance_of(list, "test_loss", kThousand).text,
            "Chance: accuracy 0.0312, loss 3.47; 45 of 54 runs lie within its noise.");
  EXPECT_EQ(chance_of({list.begin(), list.begin() + 45}, "eval_accuracy", kThousand).text,
            "Chance: accuracy 0.0312; all 45 runs lie within its noise.");
  EXPECT_EQ(chance_of({list.begin() + 45, list.end()}, "eval_accuracy", kThousand).text,
            "Chance: accuracy 0.0312; no run lies within its noise.");
  records.back().metrics.erase("chance_accuracy");
  records.back().metrics.erase("chance_loss");
  EXPECT_EQ(chance_of({list.back()}, "", kThousand).text, "");
}

Record with(const std::string& label, const nlohmann::json& config) {
  Record record;
  record.label = label;
  record.config = config;
  return record;
}

std::string differ(const std::vector<Record>& records, std::size_t most = 9,
                   const std::vector<std::string>& swept = {}) {
  RecordList list;
  for (const Record& record : records) list.push_back(&record);
  return unequal_text(
      list, [](const std::string& label) { return label; }, most, swept);
}

TEST(Unequal, NamesOptionsThatDifferAndTheirLabels) {
  const Record delta = with("delta", {{"memory.name", "deltanet"},
                                      {"memory.feature_map", "silu"},
                                      {"memory.beta_max", 1},
                                      {"memory.d_dot", 8},
                                      {"model.short_conv", "k"},
                                      {"train.learning_rate", 0.1}}),
               gated = with("gated", {{"memory.name", "gated_delta"},
                                      {"memory.feature_map", "identity"},
                                      {"memory.beta_max", 1},
                                      {"memory.d_dot", 16},
                                      {"memory.predict", "decayed"},
                                      {"model.short_conv", "none"},
                                      {"train.learning_rate", 0.2}}),
               own = with("own", {{"memory.name", "python"}, {"model.short_conv", "none"}});
  EXPECT_EQ(
      differ({delta, gated}),
      "Labels differ in learning_rate: 0.1 (delta), 0.2 (gated); feature_map: identity (gated), silu (delta); short_conv: k (delta), none (gated).");
  EXPECT_EQ(differ({delta, gated}, 1),
            "Labels differ in learning_rate: 0.1 (delta), 0.2 (gated); and 2 more.");
  EXPECT_EQ(differ({delta, gated}, 9, {"memory.feature_map", "train.learning_rate"}),
            "Labels differ in short_conv: k (delta), none (gated).");
  EXPECT_EQ(differ({delta, own}), "Labels differ in short_conv: k (delta), none (own, PyTorch).");
  EXPECT_EQ(differ({delta, delta}), "");
}

TEST(Unequal, NumbersBesideLawsAreOfThoseThatNameThem) {
  const auto rule = [](const std::string& label, const std::string& law, double c) {
    return with(label, {{"memory.name", "rule"}, {"memory.law", law}, {"memory.c", c}});
  };
  const Record one = rule("one", "S = c * S + v k^T; read S q", 1.5),
               other = rule("other", "S = cc * S + v k^T; read S q", 1),
               third = rule("third", "S = tanh(c * S); read S q", 2);
  EXPECT_EQ(differ({one, other}), "Labels differ in law: 2 of them.");
  EXPECT_EQ(differ({one, other, third}), "Labels differ in c: 1.5 (one), 2 (third); law: 3 of them.");
}

TEST(Unequal, TasksAndTrainingOfRowsSideBySide) {
  const Record recall = with("a", {{"task.name", "recall"}, {"task.length", 64}}),
               reassign = with("b", {{"task.name", "reassign"}, {"task.length", 128}});
  EXPECT_EQ(differ({recall, reassign}),
            "Labels differ in length: 128 (b), 64 (a); task: reassign (b), recall (a).");
  Record other = reassign;
  other.label = "a";
  EXPECT_EQ(differ({recall, reassign, other}), "");  // within a label it is swept
}

TEST(Unequal, SweptKeysAndMemoriesWithoutAMap) {
  const auto softmax = [](int width) {
    return with("softmax", {{"memory.name", "softmax"}, {"model.width", width}});
  };
  const auto linear = [](int width) {
    return with("linear", {{"memory.name", "linear"},
                           {"memory.key_norm", "none"},
                           {"memory.feature_map", "elu1"},
                           {"model.width", width}});
  };
  EXPECT_EQ(differ({softmax(64), softmax(128), linear(64)}),
            "Labels differ in feature_map: elu1 (linear), none (softmax).");
  EXPECT_EQ(
      differ({softmax(64), linear(128)}),
      "Labels differ in feature_map: elu1 (linear), none (softmax); width: 128 (linear), 64 (softmax).");
}

}  // namespace
}  // namespace crosstalk
