// Weights that are kept, and runs that start from them.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/weights.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "experiments/training/testing/training_fixture.h"
#include "kernels/base/text/file_stamps.h"
#include "models/model.h"
#include "results/store/store.h"
#include "results/store/weights.h"
#include "results/test_refusal.h"
#include "tasks/kinds/file_example.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using checks::runs_of;

struct Kept {
  checks::Records records;
  std::map<std::string, std::string> npz;
};

Kept train_keeping(const std::vector<Run>& runs, int pack = 0) {
  struct Client : checks::Keeper {
    void keep_weights(const std::string& id, const std::string& bytes) override {
      EXPECT_EQ(records.count(id), 0u) << "the record came before its weights";
      npz[id] = bytes;
    }
    std::map<std::string, std::string> npz;
  } client;
  EXPECT_TRUE(train_runs("test", runs, checks::on_cpu(pack), client));
  return {std::move(client.records), std::move(client.npz)};
}

class WeightsFiles : public ::testing::Test {
 protected:
  std::string file(const std::string& npz) const {
    const fs::path path = folder_ / "w.npz";
    std::ofstream(path, std::ios::binary) << npz;
    return path.string();
  }
  std::string error_of(const std::string& base, const std::string& memory) const {
    return crosstalk::testing::refusal_of<ConfigError>([&] { runs_of(base, memory); });
  }
  testing::ExampleFolder made_;  // whose path is ASCII, as studies have it
  const fs::path folder_ = made_.path();
};

const std::string kShort = "train.max_steps = 20\neval.every = 10\n";
const std::string kDelta = "name = \"delta\"";

TEST_F(WeightsFiles, KeepingChangesNoIdAndNoRecord) {
  const auto plain = runs_of(kShort, kDelta, "[1, 2, 3]");
  const auto keeping = runs_of(kShort + "train.keep_weights = true\n", kDelta, "[1, 2, 3]");
  ASSERT_EQ(plain.size(), keeping.size());
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(plain[i].id, keeping[i].id);
    EXPECT_FALSE(plain[i].keep_weights);
    EXPECT_TRUE(keeping[i].keep_weights);
  }
  const Kept a = train_keeping(plain), b = train_keeping(keeping), c = train_keeping(keeping, 2);
  EXPECT_TRUE(a.npz.empty());
  EXPECT_EQ(b.npz.size(), 3u);
  EXPECT_EQ(b.npz, c.npz) << "weights are the same however runs are packed";
  EXPECT_TRUE(checks::identical_records(a.records, b.records));
}

TEST_F(WeightsFiles, OnTheWayAreThoseOfAShorterTraining) {
  const auto whole =
      runs_of("train.max_steps = 50\neval.every = 10\ntrain.keep_weights = \"every 20\"\n", kDelta);
  const auto shorter = runs_of("train.max_steps = 40\neval.every = 10\ntrain.keep_weights = true\n", kDelta);
  const Kept kept = train_keeping(whole);
  ASSERT_EQ(kept.npz.size(), 3u);  // after 20 and 40 steps, and at the end
  EXPECT_EQ(kept.npz.at(whole[0].id + "@40"), train_keeping(shorter).npz.at(shorter[0].id));
  EXPECT_EQ(kept.npz.count(whole[0].id + "@20") + kept.npz.count(whole[0].id), 2u);
  EXPECT_EQ(whole[0].id, runs_of("train.max_steps = 50\neval.every = 10\n", kDelta)[0].id);
  for (const char* wrong : {"\"every 0\"", "\"every\"", "\"sometimes\"", "3"})
    EXPECT_THROW(runs_of(kShort + "train.keep_weights = " + wrong + "\n", kDelta), std::runtime_error)
        << wrong;
}

TEST_F(WeightsFiles, AreTheModelsParametersAfterTraining) {
  const auto runs = runs_of(kShort + "train.keep_weights = true\n", kDelta);
  const Weights weights = weights_from_npz(train_keeping(runs).npz.at(runs[0].id), "w");
  const auto model = make_model<float>(runs[0].config, {4, 4, false}, Device::cpu, 1);
  EXPECT_EQ(misfit(weights, model->parameters()), "");
  ASSERT_EQ(weights.arrays.size(), static_cast<std::size_t>(model->parameters().count()));
  EXPECT_EQ(weights.arrays[0].name, "key_embedding");
  EXPECT_FALSE(weights.is_double);
  EXPECT_EQ(to_npz(weights_from_npz(to_npz(weights), "w")), to_npz(weights));
}

const std::string kStill = "train.max_steps = 10\neval.every = 10\ntrain.learning_rate = 1e-12\n";

TEST_F(WeightsFiles, ARunThatStartsFromThemHasLearnedAlready) {
  const auto teacher =
      runs_of("train.max_steps = 600\ntrain.learning_rate = 0.01\ntrain.keep_weights = true\n", kDelta);
  const Kept kept = train_keeping(teacher);
  const std::string from = "train.init_from = \"" + file(kept.npz.at(teacher[0].id)) + "\"\n";
  const auto cold = runs_of(kStill, kDelta), warm = runs_of(kStill + from, kDelta);
  const double learned = kept.records.at(teacher[0].id).eval_loss;
  EXPECT_LT(learned, 0.1);
  EXPECT_GT(checks::train_one(cold).eval_loss, 0.3);
  EXPECT_EQ(checks::train_one(warm).eval_loss, learned);  // the steps are too small to change a float
}

TEST_F(WeightsFiles, WhatTheyAreIsHashedAndNotWhereTheyLie) {
  const auto teacher = runs_of(kShort + "train.keep_weights = true\n", kDelta, "[1, 2]");
  const Kept kept = train_keeping(teacher);
  const fs::path store = folder_ / "store", moved = folder_ / "moved";
  { const StoreWriter writer(store); }
  for (const auto& [id, npz] : kept.npz) save_weights(store, id, npz);
  const auto id_of = [&](const std::string& from) {
    return runs_of(kShort + "train.init_from = \"" + from + "\"\n", kDelta)[0].id;
  };
  const std::string &one = teacher[0].id, &two = teacher[1].id;
  const std::string first = id_of(store.string() + ":" + one);
  EXPECT_EQ(id_of(file(kept.npz.at(one))), first);
  EXPECT_NE(id_of(store.string() + ":" + two), first);
  EXPECT_NE(runs_of(kShort, kDelta)[0].id, first);
  fs::rename(store, moved);
  EXPECT_EQ(id_of(moved.string() + ":" + one.substr(0, 8)), first);
}

TEST_F(WeightsFiles, ThoseOfAnotherRunAreRefused) {
  const auto teacher = runs_of(kShort + "train.keep_weights = true\n", kDelta, "[1, 2]");
  const fs::path store = folder_ / "store";
  { const StoreWriter writer(store); }
  for (const auto& [id, npz] : train_keeping(teacher).npz) save_weights(store, id, npz);
  const std::string &one = teacher[0].id, &two = teacher[1].id;
  fs::copy_file(weights_path(store, two), weights_path(store, one), fs::copy_options::overwrite_existing);
  const std::string swapped = weights_path(store, one).string();
  EXPECT_EQ(find_weights(swapped)->run, two) << "a file is what it is";
  try {
    find_weights(store.string() + ":" + one);
    ADD_FAILURE() << "read as the other run's";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()),
              fmt::format("{} holds the weights of run {}, not of {}", swapped, two, one));
  }
}

TEST_F(WeightsFiles, WhatDoesNotFitIsRefusedWithAllThatDiffers) {
  const auto teacher = runs_of(kShort + "train.keep_weights = true\n", kDelta, "[1, 2]");
  const Kept kept = train_keeping(teacher);
  const std::string path = file(kept.npz.at(teacher[0].id));
  const auto error = [&](const std::string& from, const std::string& more = "",
                         const std::string& memory = kDelta) {
    return error_of(kShort + more + "train.init_from = \"" + from + "\"\n", memory);
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << "got: " << text << "\nexpected: " << part;
  };
  expect(error(path, "model.d_key = 8\n"), "key_projection.key is [4,8], this model's is [8,8]");
  expect(error(path, "", "name = \"linear_attention\""),
         "has gate.bias, gate.key, gate.value, which this model has not");
  expect(error(path, "", "name = \"gated_delta\""), "lacks beta.key, beta.value, beta.bias, memory.A_log");
  expect(error(path), "");
  expect(error(path, "model.init = \"key_embedding = 0\"\n"), "train.init_from sets all parameters");
  expect(error("/absent"), "test.toml:");
  expect(error("/absent"), "/absent is neither a .npz file nor a store");
  std::ofstream(path) << "no archive, but long enough to be one by its size";
  expect(error(path), "is not an .npz file");
  const fs::path store = folder_ / "store";
  { const StoreWriter writer(store); }
  expect(error(store.string()), "keeps no weights; train its runs with train.keep_weights = true");
  for (const auto& [id, npz] : kept.npz) save_weights(store, id, npz);
  expect(error(store.string()), "keeps the weights of 2 runs; say which");
  expect(error(store.string() + ":ct-"), "2 runs of");
  expect(error(store.string() + ":ct-x"), "keeps no weights of a run ct-x");
  expect(error_of(kShort + "train.init_digest = \"00\"\n", kDelta), "belongs to train.init_from");
  expect(error(store.string() + ":" + teacher[0].id, "train.init_digest = \"00\"\n"), "has the digest");
}

TEST_F(WeightsFiles, FilesThatChangedSinceTheStudyWasReadStopTheRun) {
  const auto teacher = runs_of(kShort + "train.keep_weights = true\n", kDelta, "[1, 2]");
  const Kept kept = train_keeping(teacher);
  const std::string path = file(kept.npz.at(teacher[0].id));
  const auto runs = runs_of(kShort + "train.init_from = \"" + path + "\"\n", kDelta);
  file(kept.npz.at(teacher[1].id));
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  for (const char* change : {"holds other weights than when the study was read", "is other ("}) {
    try {
      checks::train_one(runs);
      ADD_FAILURE() << "trained, or recorded as failed";
    } catch (const FilesChanged& error) {
      EXPECT_NE(std::string(error.what()).find(change), std::string::npos) << error.what();
    }
    fs::remove(path);
  }
  file(kept.npz.at(teacher[0].id));
  EXPECT_EQ(checks::train_one(runs).status, RunStatus::done) << "as they were";
}

}  // namespace
}  // namespace crosstalk
