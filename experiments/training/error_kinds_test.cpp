// Wrong answers by kind: each kind by hand, and in records of trained models.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/error_kinds.h"

#include <gtest/gtest.h>

#include <set>

#include "experiments/training/testing/training_fixture.h"

namespace crosstalk::checks {
namespace {

// Context 0: key 1 is given 10, 11, 12 and again 11; key 2 is given 20. Context 1: key 1 is given 30. With the last token that
// the read has seen key 4 is given 50; later key 3 is given 40.
const std::vector<KeyWrite> kWrites = {{1, 0, 1, 10}, {2, 0, 2, 20}, {3, 0, 1, 11}, {4, 0, 1, 12},
                                       {5, 1, 1, 30}, {6, 0, 1, 11}, {8, 0, 4, 50}, {9, 0, 3, 40}};

ErrorKind of(std::int32_t answer, bool keys_are_answers = true, std::int32_t target = 11) {
  return error_kind(kWrites, {0, 1, 8, target}, answer, keys_are_answers);
}

TEST(Mistakes, AreNamedByWhatTheSequenceWrote) {
  EXPECT_EQ(of(11), ErrorKind::tie);
  EXPECT_EQ(of(1), ErrorKind::key);
  EXPECT_EQ(of(1, false), ErrorKind::never);
  EXPECT_EQ(of(10), ErrorKind::oldest);
  EXPECT_EQ(of(12), ErrorKind::between);
  EXPECT_EQ(of(11, true, 20), ErrorKind::newest);  // what it holds was given to another key
  EXPECT_EQ(of(30), ErrorKind::other_context);
  EXPECT_EQ(of(20), ErrorKind::other_value);
  EXPECT_EQ(of(50), ErrorKind::other_value);
  EXPECT_EQ(of(40), ErrorKind::never) << "written after the read";
  EXPECT_EQ(of(99), ErrorKind::never);
  EXPECT_EQ(of(-1), ErrorKind::never);
  std::set<std::string> names;
  for (int i = 0; i < kErrorKinds; ++i) names.insert(name_of(static_cast<ErrorKind>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kErrorKinds));
}

double sum_of_errors(const Record& record) {
  double sum = 0;
  for (int i = 0; i < kErrorKinds; ++i)
    sum += record.metrics.at(std::string("error_") + name_of(static_cast<ErrorKind>(i)));
  return sum;
}

TEST(Mistakes, OfRecordsAddUpToWhatIsWrong) {
  const Record recall = train_one(runs_of("task.associations = 12\ntrain.max_steps = 40\ntask.values = 24",
                                          "name = \"linear_attention\""));
  EXPECT_NEAR(sum_of_errors(recall), 1 - recall.metrics.at("test_accuracy"), 1e-12);
  EXPECT_LT(recall.metrics.at("test_accuracy"), 1);
  EXPECT_EQ(recall.metrics.at("error_oldest"), 0) << "every key is written once";
  EXPECT_EQ(recall.metrics.at("error_key"), 0) << "keys are no answers";
  EXPECT_GT(recall.metrics.at("error_other_value"), 0);

  const Record reassign = train_one(runs_of(
      "task.name = \"reassign\"\ntask.associations = 6\ntrain.max_steps = 300\ntrain.learning_rate = 0.01",
      "name = \"linear_attention\""));
  EXPECT_NEAR(sum_of_errors(reassign), 1 - reassign.metrics.at("test_accuracy"), 1e-12);
  EXPECT_GT(reassign.metrics.at("error_oldest") + reassign.metrics.at("error_between"), 0)
      << "a sum does not forget";

  const std::string mqar =
      "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.length = 16\ntask.pairs = 3\ntrain.batch = 4\n"
      "train.max_steps = 30\neval.every = 30\neval.sequences = 40";
  const Record tokens = train_one(token_runs_of(mqar, "name = \"softmax\""));
  EXPECT_NEAR(sum_of_errors(tokens), 1 - tokens.metrics.at("test_accuracy"), 1e-12);
}

TEST(Mistakes, OfAMixtureAreCountedOverAllQueries) {
  const Record record = train_one(token_runs_of(
      "task.name = \"mqar\"\ntask.vocabulary = 16\ntask.segments = \"16:3:8 32:4:8\"\n"
      "task.test_segments = \"16:3:10 32:4:5\"\ntrain.batch = 4\ntrain.max_steps = 8\neval.every = 8",
      "name = \"softmax\""));
  const Series& accuracy = record.profiles.at("accuracy_by_segment");
  EXPECT_NEAR(sum_of_errors(record), 1 - (30 * accuracy.y[0] + 20 * accuracy.y[1]) / 50, 1e-12);
}

// Keys of several tokens, and elements that change places.
TEST(Mistakes, OfMotifsAndOfPlacesAddUpToWhatIsWrong) {
  const Record fuzzy = train_one(token_runs_of(
      "task.name = \"mad_recall\"\ntask.motif = 2\ntask.length = 32\ntrain.batch = 4\ntrain.max_steps = 20",
      "name = \"softmax\""));
  EXPECT_NEAR(sum_of_errors(fuzzy), 1 - fuzzy.metrics.at("test_accuracy"), 1e-12);
  EXPECT_EQ(fuzzy.metrics.at("error_oldest") + fuzzy.metrics.at("error_newest"), 0) << "a key has one value";
  EXPECT_EQ(fuzzy.metrics.at("error_key"), 0) << "keys of several tokens are no answers";
  EXPECT_LT(fuzzy.metrics.at("test_accuracy"), 1);
  const Record tag =
      train_one(token_runs_of("task.name = \"swap\"\ntask.layout = \"tag\"\ntask.associations = "
                              "3\ntask.operations = 8\ntrain.batch = 4\ntrain.max_steps = 4",
                              "name = \"softmax\""));
  EXPECT_NEAR(sum_of_errors(tag), 1 - tag.metrics.at("test_accuracy"), 1e-12);
  EXPECT_EQ(tag.metrics.at("error_never") + tag.metrics.at("error_key"), 0) << "all elements lie somewhere";
}

// Places and stacks are keys, too: what stands elsewhere, and what lay there before, is told from what never stood anywhere.
TEST(Mistakes, OfPlacesAndOfStacksAddUpToWhatIsWrong) {
  for (const char* task :
       {"task.name = \"palindrome\"\ntask.vocabulary = 32\ntask.length = 12",
        "task.name = \"selective_copy\"\ntask.vocabulary = 32\ntask.length = 24\ntask.data = 6",
        "task.name = \"compression\"\ntask.vocabulary = 32\ntask.length = 9\nmodel.decoder = \"last\"",
        "task.name = \"stacks\"\ntask.stacks = 3\ntask.elements = 20\ntask.length = 60"}) {
    const Record record = train_one(
        token_runs_of(std::string(task) + "\ntrain.batch = 4\ntrain.max_steps = 20\neval.sequences = 32",
                      "name = \"softmax\""));
    EXPECT_NEAR(sum_of_errors(record), 1 - record.metrics.at("test_accuracy"), 1e-12) << task;
    EXPECT_GT(record.metrics.at("error_other_value"), 0) << task;
    EXPECT_GT(record.metrics.at("error_never"), 0) << task;
    const bool stacks = std::string(task).find("stacks") != std::string::npos;
    if (!stacks) {
      EXPECT_EQ(record.metrics.at("error_key") + record.metrics.at("error_oldest"), 0) << task;
    }
  }
}

TEST(Mistakes, AreOfRecallAlone) {
  const Record words = train_one(token_runs_of(
      "task.name = \"words\"\ntask.group = \"Z5\"\ntask.length = 8\ntrain.batch = 4\ntrain.max_steps = 4",
      "name = \"softmax\""));
  for (const auto& [name, value] : words.metrics) EXPECT_FALSE(name.starts_with("error_")) << name;
}

}  // namespace
}  // namespace crosstalk::checks
