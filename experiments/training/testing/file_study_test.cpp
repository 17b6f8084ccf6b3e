// Studies of task `file`: what makes runs the same, what is refused, and training on files.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "experiments/training/testing/training_fixture.h"
#include "kernels/base/error.h"
#include "kernels/base/text/file_stamps.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk::checks {
namespace {

using testing::example_files;
using testing::ExampleFolder;
using testing::write_example;

void write_splits(const ExampleFolder& folder, std::uint64_t seed) {
  write_example(folder.path(), "train", example_files(seed, 60, 8));
  write_example(folder.path(), "eval", example_files(seed + 1, 20, 8));
  write_example(folder.path(), "test", example_files(seed + 2, 20, 8));
}

std::vector<Run> runs_on(const std::string& folder, const std::string& more = "",
                         const std::string& seeds = "[1]") {
  return runs_of("task.name = \"file\"\ntask.associations = 8\ntask.folder = \"" + folder +
                     "\"\ntrain.max_steps = 60\neval.every = 20\ntrain.stop_loss = 0\neval.sequences = 20" +
                     more,
                 "name = \"delta\"", seeds);
}

std::string refusal(const std::string& folder, const std::string& more) {
  return crosstalk::testing::refusal_of<ConfigError>([&] { runs_on(folder, more); }, "read");
}

TEST(FileStudy, ARunIsWhatTheFilesHoldNotWhereTheyLie) {
  const ExampleFolder a, b;
  write_splits(a, 1), write_splits(b, 1);
  const std::string id = runs_on(a.path())[0].id;
  EXPECT_EQ(runs_on(b.path())[0].id, id);
  EXPECT_EQ(runs_on(a.path() + "/../" + std::filesystem::path(a.path()).filename().string())[0].id, id);
  write_example(b.path(), "test", example_files(9, 20, 8));
  EXPECT_NE(runs_on(b.path())[0].id, id);
  EXPECT_EQ(runs_on(a.path(),
                    "\ntask.content = \"" + runs_on(a.path())[0].config.get_string("task.content") + "\"")[0]
                .id,
            id);
}

TEST(FileStudy, WhatTheFilesCannotGiveIsRefusedWhereItStands) {
  const ExampleFolder folder;
  write_splits(folder, 1);
  EXPECT_EQ(refusal(folder.path(), ""), "read");
  const std::string many = refusal(folder.path(), "\neval.sequences = 21");
  EXPECT_NE(many.find("test.toml:"), std::string::npos) << many;
  EXPECT_NE(many.find("eval.sequences = 21, but the eval split has 20 sequences; give at most 20"),
            std::string::npos)
      << many;
  EXPECT_NE(
      refusal(folder.path(), "\neval.length_factors = \"1 2\"").find("a folder of its own for each length"),
      std::string::npos);
  const std::string pinned = refusal(folder.path(), "\ntask.content = \"0123\"");
  EXPECT_NE(pinned.find("hold other data"), std::string::npos) << pinned;
  std::filesystem::remove(folder.path() + "/test_target.npy");
  EXPECT_NE(refusal(folder.path(), "").find("/test_target.npy: cannot be read"), std::string::npos);
}

TEST(FileStudy, TrainsAloneAsInAPackAndEachSeedInAnOrderOfItsOwn) {
  const ExampleFolder folder;
  write_splits(folder, 1);
  const auto runs = runs_on(folder.path(), "", "[1, 2, 3]");
  const Records packed = train(runs, 3);
  std::set<double> losses;
  for (const auto& run : runs) {
    const Record alone = train_one({run});
    EXPECT_TRUE(identical_records(packed.at(run.id), alone));
    EXPECT_EQ(alone.status, RunStatus::done);
    EXPECT_LT(alone.eval_loss, alone.curves.at("eval_loss").y.front());
    EXPECT_TRUE(alone.metrics.count("test_loss"));
    losses.insert(alone.eval_loss);
  }
  EXPECT_EQ(losses.size(), 3u);
  const auto ordered = [&](int data_seed) {
    return train_one(runs_on(folder.path(), "\ninit_seed = 5\ndata_seed = " + std::to_string(data_seed)));
  };
  EXPECT_NE(ordered(1).eval_loss, ordered(2).eval_loss);
}

TEST(FileStudy, FilesThatChangeAfterThePlanTrainNothing) {
  const ExampleFolder folder;
  write_splits(folder, 1);
  const auto runs = runs_on(folder.path());
  write_splits(folder, 4);
  Keeper keeper;
  EXPECT_THROW(train_runs("test", runs, {}, keeper), OptionError);
  EXPECT_TRUE(keeper.records.empty()) << "a run on other data than its own ended";
}

TEST(FileStudy, FilesThatChangeWhileRunsTrainStopThemAndTheyGoOnOnceTheseAreBack) {
  const ExampleFolder folder;
  write_splits(folder, 1);
  const auto runs = runs_on(folder.path(), "", "[1, 2]");
  const Records undisturbed = train(runs);
  Keeper keeper;
  keeper.on_progress = [&](std::int64_t) { write_splits(folder, 4); };
  EXPECT_THROW(train_runs("test", runs, on_cpu(0), keeper), FilesChanged);
  EXPECT_TRUE(keeper.records.empty()) << "recorded, though its files were others";
  EXPECT_FALSE(keeper.states.empty()) << "the data of the training was held";
  write_splits(folder, 1);
  keeper.on_progress = [](std::int64_t) {};
  EXPECT_TRUE(train_runs("test", runs, on_cpu(0), keeper));
  EXPECT_TRUE(identical_records(keeper.records, undisturbed));
}

}  // namespace
}  // namespace crosstalk::checks
