// Studies of arrays: what `crosstalk sample --out` writes of any task trains as the task itself does.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "experiments/inspect/sample.h"
#include "experiments/training/testing/training_fixture.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::checks {
namespace {

using testing::ExampleFolder;

constexpr int kSteps = 8, kBatch = 4, kSequences = 6;

std::string task_text(const Options& options) {
  std::string text = fmt::format("task.name = \"{}\"", options.get_string("task.name"));
  for (const auto& [key, value] : options.values())
    if (key != "task.name") text += fmt::format("\n{} = {}", key, to_text(value));
  return text;
}

std::vector<Run> study(const std::string& task, bool tokens, int sequences = kSequences) {
  const std::string text =
      task +
      fmt::format(
          "\ntrain.max_steps = {}\neval.every = 4\ntrain.batch = {}\ntrain.stop_loss = 0\neval.sequences = {}"
          "\ntrain.learning_rate = 0.01\ninit_seed = 1\ndata_seed = 3",
          kSteps, kBatch, sequences);
  return tokens ? token_runs_of(text, "name = \"delta\"") : runs_of(text, "name = \"delta\"");
}

TEST(TokensStudy, ASampleOfAnyTaskTrainsAsTheTask) {
  for (const TaskKind& kind : task_kinds()) {
    if (!kind.drawn) continue;
    SCOPED_TRACE(kind.name);
    Options options = testing::resolved_options(kind);
    options.set("task.name", kind.name);
    const auto task = kind.make(options);
    const bool tokens = task->vocabulary().tokens > 0;
    const ExampleFolder folder;
    for (const Split split : {Split::train, Split::eval, Split::test}) {
      SampleRequest request;
      request.task_name = kind.name;
      request.options = options;
      request.split = split;
      request.seed = 3;
      request.count = split == Split::train ? kSteps * kBatch : kSequences;
      write_sample(folder.path() + "/" + split_name(split), *task, request);
    }
    const Vocabulary vocabulary = task->vocabulary();
    const std::string from_files =
        fmt::format("task.folder = \"{}\"\ntask.order = \"file\"\n", folder.path()) +
        (tokens ? fmt::format("task.name = \"tokens\"\ntask.vocabulary = {}\ntask.answers = {}",
                              vocabulary.tokens, vocabulary.values)
         : vocabulary.numbers > 0
             ? std::string("task.name = \"file\"")
             : fmt::format("task.name = \"file\"\ntask.associations = 20\ntask.keys = {}\ntask.values = {}",
                           vocabulary.keys, vocabulary.values));
    // Compression is a task of a model with a decoder alone.
    const std::string decoder = kind.name == "compression" ? "\nmodel.decoder = \"last\"" : "";
    const Record drawn = train_one(study(task_text(options) + decoder, tokens)),
                 read = train_one(study(from_files + decoder, tokens));
    ASSERT_EQ(drawn.status, RunStatus::done) << drawn.message;
    ASSERT_EQ(read.status, RunStatus::done) << read.message;
    EXPECT_EQ(drawn.curves.at("train_loss").y, read.curves.at("train_loss").y);
    // A split of which no sequence has all answers is read with fewer slots (depo); products of other sizes round otherwise.
    const auto expect_near = [](double ours, double theirs) { EXPECT_NEAR(ours, theirs, 1e-7 * theirs); };
    expect_near(drawn.eval_loss, read.eval_loss);
    expect_near(drawn.curves.at("eval_loss").y.front(), read.curves.at("eval_loss").y.front());
    expect_near(drawn.metrics.at("test_loss"), read.metrics.at("test_loss"));
    if (!tokens) continue;
    double all = read.metrics.at("test_accuracy");  // and the kinds of wrong answers
    for (const auto& [name, value] : read.metrics)
      if (name.starts_with("error_")) all += value;
    EXPECT_NEAR(all, 1, 1e-12);
  }
}

TEST(TokensStudy, ARunIsWhatTheFilesHoldNotWhereTheyLieAndSegmentsAreRead) {
  const ExampleFolder a, b;
  for (const char* split : {"train", "eval", "test"})
    for (const ExampleFolder* folder : {&a, &b})
      testing::write_example(folder->path(), split, testing::example_tokens(5, 20, 8));
  const auto runs = [](const ExampleFolder& folder) {
    return study("task.name = \"tokens\"\ntask.load = 8\ntask.folder = \"" + folder.path() + "\"", true,
                 20);  // all that are there, as segments have them
  };
  EXPECT_EQ(runs(a)[0].id, runs(b)[0].id);
  NpyArray<std::int64_t> segment{{20}, {}};
  for (int n = 0; n < 20; ++n) segment.data.push_back(n % 4 == 0 ? 2 : 5);
  for (const char* split : {"eval", "test"}) write_npy(b.path() + "/" + split + "_segment.npy", segment);
  EXPECT_NE(runs(a)[0].id, runs(b)[0].id);
  const Record record = train_one(runs(b));
  EXPECT_EQ(record.status, RunStatus::done) << record.message;
  int named = 0;
  for (const auto& [name, value] : record.metrics) named += name.find("segment=2") != std::string::npos;
  EXPECT_GE(named, 1);
}

}  // namespace
}  // namespace crosstalk::checks
