// Training on the GPU: the same bits however runs are packed, ordered, shared over streams, stopped and
// resumed (L1), and the CPU's curve within a tolerance (L3). Skipped without a GPU.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "experiments/training/testing/training_fixture.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/testing/cuda_test.h"

namespace crosstalk::checks {
namespace {

using TrainingCuda = CudaTest;

struct Memory {
  const char *name, *lines, *task;
};
// Every memory, and every form of its kernels that training takes: fused, chunked, by lists.
const Memory kMemories[] = {
    {"softmax", "name = \"softmax\"", "recall"},
    {"linear", "name = \"linear_attention\"", "recall"},
    {"dpfp", "name = \"linear_attention\"\nfeature_map = \"dpfp\"\nnu = 2", "recall"},
    {"favor", "name = \"linear_attention\"\nfeature_map = \"favor\"\nfeatures = 32", "recall"},
    {"delta", "name = \"delta\"\nfeature_map = \"dpfp\"\nnu = 1", "reassign"},
    {"delta_l2", "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"l2\"\nbeta_max = 2", "swap"},
    {"delta_attention", "name = \"delta\"\nread_norm = \"attention\"", "reassign"},
    {"gate", "name = \"peng_gate\"", "reassign"},
    {"fwm", "name = \"fwm\"", "reassign"}};

std::vector<Run> runs(const Memory& memory, const std::string& lines, const std::string& seeds) {
  const std::string load =
      std::string(memory.task) == "swap" ? "task.operations = 12" : "task.associations = 20";
  return runs_of("task.name = \"" + std::string(memory.task) + "\"\n" + load +
                     "\nmodel.d_key = 32\ntrain.batch = 16\neval.sequences = 20\neval.every = 20\n" + lines,
                 memory.lines, seeds);
}

TrainingOptions on_gpu(int pack = 0, int concurrency = 0) {
  TrainingOptions options;
  options.device = Device::cuda;
  options.pack = pack;
  options.concurrency = concurrency;
  return options;
}

/// Trains in rounds: each is stopped once `evaluations` chunks of steps are done (0: never), and the next
/// goes on.
Records train_on_gpu(const std::vector<Run>& all, const TrainingOptions& options, int evaluations = 0,
                     int* rounds = nullptr) {
  int chunks = 0;
  Keeper keeper;
  keeper.on_progress = [&](std::int64_t) {
    if (evaluations > 0 && ++chunks % evaluations == 0) keeper.stop = true;
  };
  const int count = train_in_rounds(all, options, keeper);
  if (rounds) *rounds = count;
  EXPECT_EQ(keeper.records.size(), all.size());
  return std::move(keeper.records);
}

TEST_F(TrainingCuda, PackOrderStreamsAndResumeDoNotMatter) {
  for (const Memory& memory : kMemories) {
    SCOPED_TRACE(memory.name);
    std::string seeds = "[1";
    for (int seed = 2; seed <= 8; ++seed) seeds += ", " + std::to_string(seed);
    auto all = runs(memory, "train.max_steps = 80\ntrain.stop_loss = 0.2\ntrain.patience = 2", seeds + "]");
    const Records together = train_on_gpu(all, on_gpu(64));
    EXPECT_TRUE(identical_records(train_on_gpu(all, on_gpu(1, 1)), together)) << "alone";
    std::reverse(all.begin(), all.end());
    EXPECT_TRUE(identical_records(train_on_gpu(all, on_gpu(7, 3)), together)) << "packs of 7, three streams";
    int rounds = 0;
    EXPECT_TRUE(identical_records(train_on_gpu(all, on_gpu(3, 2), 2, &rounds), together))
        << "stopped and resumed";
    EXPECT_GT(rounds, 2) << "never stopped: nothing is tested";
  }
}

// Segments of a mixture in pieces of captured graphs, AdamW with all its options, and stages of a curriculum.
std::vector<Run> token_runs(bool curriculum, const std::string& lines,
                            const std::string& optimizer = "adamw") {
  const std::string task =
      curriculum ? "task.name = \"swap\"\ntask.layout = \"tag\"\ntask.curriculum = \"2 4 8\"\n"
                   "train.promote_accuracy = 0.5\ntrain.schedule = \"cosine\"\neval.every = 10\n"
                 : "task.name = \"mqar\"\ntask.vocabulary = 32\ntask.filler = \"random\"\n"
                   "task.segments = \"16:2:100 32:4:52 16:3:8\"\ntask.test_segments = \"16:2 64:8:6\"\n"
                   "train.schedule = \"cosine_epoch\"\neval.every = 20\n";
  return token_runs_of(task + "train.batch = 4\neval.sequences = 20\ntrain.optimizer = \"" + optimizer +
                           "\"\n"
                           "train.clip_norm = 0.5\ntrain.warmup_steps = 10\ntrain.stop_loss = 0\n"
                           "train.patience = 1000\n" +
                           lines,
                       "name = \"deltanet\"", "[1, 2, 3]",
                       "\"train.learning_rate\" = [3e-3, 1e-2]\n\"train.weight_decay\" = [0.0, 0.1]");
}

TEST_F(TrainingCuda, MixturesAndCurriculaDoNotKnowTheirPack) {
  for (const auto& [curriculum, optimizer] : {std::pair{false, "adamw"}, {true, "adamw"}, {true, "muon"}}) {
    SCOPED_TRACE(fmt::format("{} by {}", curriculum ? "curriculum" : "mixture", optimizer));
    auto all = token_runs(curriculum, "train.max_steps = 120\ntrain.stop_accuracy = 0.9", optimizer);
    const Records together = train_on_gpu(all, on_gpu(64));
    for (const auto& [id, record] : together) EXPECT_EQ(record.status, RunStatus::done) << record.message;
    EXPECT_TRUE(identical_records(train_on_gpu(all, on_gpu(1, 1)), together)) << "alone";
    std::reverse(all.begin(), all.end());
    int rounds = 0;
    EXPECT_TRUE(identical_records(train_on_gpu(all, on_gpu(5, 2), 3, &rounds), together))
        << "stopped and resumed";
    EXPECT_GT(rounds, 2) << "never stopped: nothing is tested";
  }
}

TEST_F(TrainingCuda, MixturesAndCurriculaHaveTheCurvesOfTheCpu) {
  for (const auto& [curriculum, optimizer] : {std::pair{false, "adamw"}, {true, "adamw"}, {true, "muon"}}) {
    SCOPED_TRACE(fmt::format("{} by {}", curriculum ? "curriculum" : "mixture", optimizer));
    const auto all = token_runs(curriculum, "train.max_steps = 60\ntrain.precision = \"fp64\"", optimizer);
    const Records gpu = train_on_gpu(all, on_gpu()), cpu = train(all);
    for (const auto& [id, want] : cpu) {
      const Record& got = gpu.at(id);
      ASSERT_EQ(got.steps, want.steps) << got.message;
      for (const char* name : {"eval_loss", "train_loss"}) {
        const Series &a = got.curves.at(name), &b = want.curves.at(name);
        ASSERT_EQ(a.x, b.x) << name;
        for (std::size_t i = 0; i < a.y.size(); ++i)
          EXPECT_NEAR(a.y[i], b.y[i], 1e-6) << name << " after " << a.x[i] << " steps";
      }
    }
  }
}

// A neighbour that blows up changes nobody else.
TEST_F(TrainingCuda, DivergedReplicasDisturbNobody) {
  const Memory memory{"delta", "name = \"delta\"\nfeature_map = \"identity\"\nkey_norm = \"none\"",
                      "reassign"};
  auto calm = runs(memory, "train.max_steps = 60", "[1, 2, 3]");
  const Records alone = train_on_gpu(calm, on_gpu(1));
  auto mixed = calm;
  for (const auto& wild : runs(memory, "train.max_steps = 60\ntrain.learning_rate = 10", "[1, 2, 3]"))
    mixed.insert(mixed.begin() + 1, wild);
  const Records all = train_on_gpu(mixed, on_gpu(64));
  int diverged = 0;
  for (const auto& [id, record] : all) diverged += record.status == RunStatus::diverged;
  EXPECT_GT(diverged, 0) << "nothing diverged: nothing is tested";
  for (const auto& [id, record] : alone) EXPECT_TRUE(identical_records(all.at(id), record)) << id;
}

// fp64 leaves rounding alone: the whole curve within 1e-7 after 100 steps of Adam, which amplifies the 1e-16
// of different orders of summation (where a gradient is near 0 its sign decides the step).
TEST_F(TrainingCuda, CurvesAreTheCpus) {
  for (const Memory& memory : kMemories) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(std::string(memory.name) + (exact ? " fp64" : " fp32"));
      const auto all = runs(memory,
                            std::string("train.max_steps = 100\ntrain.stop_loss = 0\ntrain.patience = 100") +
                                (exact ? "\ntrain.precision = \"fp64\"" : ""),
                            "[1, 2]");
      const Records gpu = train_on_gpu(all, on_gpu()), cpu = train(all);
      for (const auto& [id, want] : cpu) {
        const Record& got = gpu.at(id);
        ASSERT_EQ(got.steps, want.steps);
        for (const char* name : {"eval_loss", "train_loss"}) {
          const Series &a = got.curves.at(name), &b = want.curves.at(name);
          ASSERT_EQ(a.x, b.x) << name;
          for (std::size_t i = 0; i < a.y.size(); ++i)
            EXPECT_NEAR(a.y[i], b.y[i], exact ? 1e-7 : 2e-3) << name << " after " << a.x[i] << " steps";
        }
      }
    }
  }
}

}  // namespace
}  // namespace crosstalk::checks
