// A text read in lanes: what is carried from window to window is what one long sequence holds, whatever the pack, and belongs to a
// stopped run; memories that carry nothing are refused by name.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "experiments/training/testing/training_fixture.h"
#include "kernels/testing/cuda_test.h"
#include "models/memory.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::checks {
namespace {

/// Training and test are the same 243 tokens, five windows of 16 in each of three lanes; validation has 121.
const std::string& folder() {
  static const testing::ExampleFolder folder;
  static const bool written = [] {
    RandomStream random(4, RandomDomain::task_train, 0);
    NpyArray<std::int64_t> ids{{243}, {}};
    for (int i = 0; i < 243; ++i) ids.data.push_back(random.below(6));
    for (const char* name : {"train", "test"}) write_npy(folder.path() + "/" + name + ".npy", ids);
    ids.shape[0] = 121, ids.data.resize(121);
    write_npy(folder.path() + "/eval.npy", ids);
    return true;
  }();
  static_cast<void>(written);
  return folder.path();
}

std::vector<Run> text_runs(const std::string& memory, const std::string& lines,
                           const std::string& seeds = "[1]") {
  return token_runs_of(
      fmt::format("task.name = \"text\"\ntask.folder = \"{}\"\ntask.length = 16\ntask.vocabulary = 6\n"
                  "model.layers = 2\nmodel.heads = 2\ntrain.stop_loss = 0\ntrain.patience = 1000\n{}\n",
                  folder(), lines),
      memory, seeds);
}
constexpr const char* kLanes = "task.lanes = 3\ntrain.batch = 3\n";
constexpr const char* kParts =
    "model.short_conv = \"qkv\"\nmodel.token_shift = \"kv\"\nmodel.input_shift = \"static\"\n";
const char* const kCarrying[] = {"name = \"linear_attention\"",
                                 "name = \"deltanet\"",
                                 "name = \"gated_delta\"",
                                 "name = \"mlstm\"",
                                 "name = \"ttt_linear\"\nmini_batch = 16",
                                 "name = \"sliding_window\"\nwindow = 9",
                                 "name = \"sliding_window\"\nwindow = 17"};

// Training that changes nothing loses, window by window, what the text loses as it is read from end to end.
TEST(Lanes, OfTrainingAndEvaluationAreOneLongSequence) {
  for (const char* memory : kCarrying) {
    SCOPED_TRACE(memory);
    const auto record = [&](const std::string& more) {
      return train_one(text_runs(memory, std::string(kLanes) + kParts +
                                             "train.precision = \"fp64\"\ntrain.learning_rate = 1e-30\n"
                                             "train.max_steps = 5\neval.every = 5\n" +
                                             more));
    };
    const Record windows = record(""), long_ones = record("eval.piece = 64\n");
    ASSERT_EQ(windows.status, RunStatus::done) << windows.message;
    const double test = windows.metrics.at("test_loss");
    EXPECT_NEAR(windows.eval_loss, long_ones.eval_loss, 1e-10) << "validation, 40 tokens, is read whole";
    EXPECT_EQ(windows.eval_accuracy, long_ones.eval_accuracy);
    EXPECT_NEAR(test, long_ones.metrics.at("test_loss"), 1e-10);
    EXPECT_NEAR(test, windows.curves.at("train_loss").y.back(), 1e-10);
    EXPECT_NEAR(windows.metrics.at("test_perplexity"), std::exp(test), 1e-9);
    EXPECT_GT(std::abs(test - record("task.eval_lanes = 5\n").metrics.at("test_loss")), 1e-7)
        << "what is carried changes nothing";
  }
}

// Stopped within an epoch, a run goes on with what its lanes hold.
TEST(Lanes, BelongToAStoppedRunAndToNoOther) {
  for (const char* memory : kCarrying) {
    SCOPED_TRACE(memory);
    const auto runs = text_runs(
        memory,
        std::string(kLanes) + kParts + "train.learning_rate = 1e-2\ntrain.max_steps = 22\neval.every = 4\n",
        "[1, 2, 3]");
    const Records alone = train(runs, 1);
    EXPECT_TRUE(identical_records(train(runs, 3), alone));
    EXPECT_TRUE(identical_records(train(runs, 2), alone)) << "a run that waits begins with an epoch";
    int reports = 0, rounds = 0;
    Keeper keeper;
    keeper.on_progress = [&](std::int64_t) { keeper.stop = ++reports % 2 == 0; };
    rounds = train_in_rounds(runs, on_cpu(2), keeper);
    EXPECT_GT(rounds, 2);
    EXPECT_TRUE(identical_records(keeper.records, alone));
    EXPECT_TRUE(keeper.rejected.empty()) << keeper.rejected.begin()->second;
  }
}

TEST(Lanes, LearnMoreOfWhatLiesBeforeAWindow) {
  const auto loss = [](const std::string& lanes) {
    return train_one(text_runs("name = \"deltanet\"", lanes + "train.batch = 3\ntrain.learning_rate = 1e-2\n"
                                                              "train.max_steps = 20\neval.every = 20\n"))
        .curves.at("train_loss")
        .y.back();
  };
  EXPECT_NE(loss("task.lanes = 3\n"), loss("task.eval_lanes = 3\n")) << "training alone differs";
}

std::string refusal(const std::string& memory, const std::string& lines) {
  return crosstalk::testing::refusal_of<std::exception>(
      [&] { text_runs(memory, lines + "train.max_steps = 5\neval.every = 5\n"); }, "taken");
}

TEST(Lanes, AreRefusedWhereNothingCouldBeCarried) {
  const auto expect = [](const std::string& why, const std::string& memory, const std::string& lines) {
    const std::string message = refusal(memory, lines);
    EXPECT_NE(message.find(why), std::string::npos) << message;
  };
  int carrying = 0;
  for (const crosstalk::Memory& memory : all_memories()) {
    const std::string name = "name = \"" + memory.name + "\"";
    if (memory.states.empty() && memory.name != "sliding_window")
      expect(
          memory.name +
              " has none: it reads all tokens before (those of a window alone are handed on: sliding_window); leave it "
              "out, and every window begins without a past",
          name, kLanes);
    else
      ++carrying;
  }
  EXPECT_GT(carrying, 20);
  const std::string delta = "name = \"delta\"";
  expect("task.eval_lanes = 2", "name = \"softmax\"", "task.eval_lanes = 2\n");
  expect("train.batch = 4", delta, "task.lanes = 3\ntrain.batch = 4\n");
  expect("eval.sequences", delta, std::string(kLanes) + "eval.sequences = 7\n");
  expect("eval.length_factors", delta, std::string(kLanes) + "eval.length_factors = \"1 2\"\n");
  expect("model.positions", delta,
         std::string(kLanes) + "model.positions = \"learned\"\nmodel.max_length = 300\n");
  expect("give a multiple of it as task.length", "name = \"ttt_linear\"\nmini_batch = 5", kLanes);
  expect("memory.window = 18 hands on 17 keys and values, and a piece has 16 tokens",
         "name = \"sliding_window\"\nwindow = 18", kLanes);
  expect("favor_redraw = \"fixed\"", "name = \"linear_attention\"\nfeature_map = \"favor\"", kLanes);
  expect("taken", "name = \"linear_attention\"\nfeature_map = \"favor\"\nfavor_redraw = \"fixed\"", kLanes);
  expect("taken", delta, kLanes);
}

class LanesOnCuda : public CudaTest {};

TEST_F(LanesOnCuda, CarryWhatThoseOnTheCpuDo) {
  for (const char* memory : kCarrying) {
    SCOPED_TRACE(memory);
    const auto runs = text_runs(memory,
                                std::string(kLanes) + kParts +
                                    "train.precision = \"fp64\"\ntrain.learning_rate = 1e-3\n"
                                    "train.max_steps = 22\neval.every = 11\n",
                                "[1, 2]");
    const Records cpu = train(runs);
    Keeper keeper;
    TrainingOptions options;
    options.device = Device::cuda;
    EXPECT_TRUE(train_runs("test", runs, options, keeper));
    for (const auto& [id, record] : cpu) {
      EXPECT_NEAR(record.eval_loss, keeper.records.at(id).eval_loss, 1e-9);
      EXPECT_NEAR(record.metrics.at("test_loss"), keeper.records.at(id).metrics.at("test_loss"), 1e-9);
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks
