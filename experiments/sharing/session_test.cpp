// `run` and `retry` in this process, with a trainer of the test's own in place of the real one: failures,
// stops and limits on demand.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/session.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "results/store/claims.h"
#include "results/store/live.h"
#include "results/store/store.h"
#include "tasks/kinds/file_example.h"

namespace crosstalk {
namespace {

/// Script of the trainer below. Runs are named by their place in the study, from 0.
struct Script {
  std::set<std::size_t> failing, diverging;
  std::size_t signal_after = 1000;  ///< raises SIGTERM after so many runs
  bool device_error = false;
  bool deaf = false;  ///< does not look at the stop flag
  std::vector<std::string> trained;
  std::function<void(const std::vector<const Run*>& runs, TrainingClient&)> before;
} script;

}  // namespace

/// Stands in for experiments/training/scheduler.cpp, which is then not linked.
bool train_runs(const std::string& study, const std::vector<const Run*>& runs, const TrainingOptions&,
                TrainingClient& client) {
  if (script.device_error) throw DeviceError("the device was lost");
  if (script.before) script.before(runs, client);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i == script.signal_after) std::raise(SIGTERM);
    while (script.deaf) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (client.stopped()) return false;
    const Run& run = *runs[i];
    script.trained.push_back(run.id);
    Record record;
    record.id = run.id;
    record.study = study;
    record.label = run.label;
    record.seed = run.seed;
    record.config = nlohmann::json::object();
    record.status = script.failing.count(i)     ? RunStatus::failed
                    : script.diverging.count(i) ? RunStatus::diverged
                                                : RunStatus::done;
    if (record.status == RunStatus::failed) record.message = "out of luck";
    record.provenance = {{"wall_s", 0.5}};
    client.progressed(10);
    client.finished(std::move(record));
  }
  return true;
}

namespace program {
namespace {

namespace fs = std::filesystem;

class SessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    script = {};
    std::ofstream(folder_ / "s.toml") << "[study]\nname = \"s\"\nseeds = [1, 2, 3, 4, 5]\n[base]\n"
                                         "task.name = \"recall\"\ntask.associations = 4\nmodel.d_key = 4\n"
                                         "[memories.linear]\nname = \"linear_attention\"\n";
  }

  fs::path store() const { return folder_ / "store"; }

  int call(std::vector<std::string> words) {
    words.insert(words.begin() + 1, (folder_ / "s.toml").string());
    words.insert(words.end(), {"--out", store().string()});
    return call_program(std::move(words));
  }

  int call_program(std::vector<std::string> words) {
    std::ostringstream out, err;
    Console console{out, err, false, false, "crosstalk", {}};
    console.arguments = std::move(words);
    script.trained.clear();
    const int code = run_program(console);
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  crosstalk::testing::ExampleFolder made_;  // whose path is ASCII, as studies have it
  const fs::path folder_ = made_.path();
  std::string out_, err_;
};

TEST_F(SessionTest, RunsThatTrainAreSeenInTheStoreUntilTheyEnd) {
  std::map<std::string, LiveRun> seen;
  script.before = [&](const std::vector<const crosstalk::Run*>& runs, TrainingClient& client) {
    {  // a pack has a copy of its own, which is gone before the session is
      const crosstalk::Run copy = *runs[0];
      client.advanced({{&copy, 10}});
      client.advanced({{&copy, 50}});
      client.evaluated(copy, {50, 0.5, 0.75, 0.6});
    }
    seen = live_runs(store());
  };
  EXPECT_EQ(call({"run"}), exit_done) << err_;
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen.begin()->second.label, "linear");
  EXPECT_EQ(seen.begin()->second.curves.at("eval_accuracy").y, (std::vector<double>{0.75}));
  EXPECT_FALSE(fs::exists(store() / "live"));
}

TEST_F(SessionTest, WhatAnotherProcessLeavesIsFoundWhileOtherRunsWait) {
  bool looked = false;
  script.before = [&](const std::vector<const crosstalk::Run*>& runs, TrainingClient& client) {
    Claims other(store(), {});
    ASSERT_TRUE(other.take(runs[2]->id));
    EXPECT_TRUE(client.more_runs({}, false).empty());
    EXPECT_FALSE(client.claim(runs[2]->id));
    other.release(runs[2]->id);
    EXPECT_TRUE(client.more_runs({runs[2]->id}, false).empty()) << "it waits here";
    const std::vector<const crosstalk::Run*> freed = client.more_runs({}, false);
    ASSERT_EQ(freed.size(), 1u);
    EXPECT_EQ(freed[0]->id, runs[2]->id);
    looked = true;
  };
  EXPECT_EQ(call({"run"}), exit_done) << err_;
  EXPECT_TRUE(looked);
  EXPECT_EQ(read_store(store()).records.size(), 5u);
}

// The work of a run is that of its first step: its files may be gone when others are told of it.
TEST_F(SessionTest, FilesThatGoWhileRunsTrainEndNoProcess) {
  fs::create_directory(folder_ / "text");
  std::ofstream(folder_ / "text" / "a.txt") << std::string(4000, 'a');
  std::ofstream(folder_ / "s.toml") << fmt::format(
      "[study]\nname = \"s\"\nseeds = [1]\n[base]\ntask.name = \"text\"\ntask.folder = \"{}\"\ntask.length = 16\n"
      "model.name = \"language\"\neval.sequences = 2\n[memories.linear]\nname = \"linear_attention\"\n",
      (folder_ / "text").string());
  script.before = [&](const std::vector<const crosstalk::Run*>& runs, TrainingClient& client) {
    client.advanced({{runs[0], 10}});
    fs::remove_all(folder_ / "text");
    std::this_thread::sleep_for(std::chrono::milliseconds(900));  // until others are told
  };
  EXPECT_EQ(call({"run"}), exit_done) << err_;
  EXPECT_EQ(read_store(store()).records.size(), 1u);
}

TEST_F(SessionTest, DryRunTouchesNothing) {
  EXPECT_EQ(call({"run", "--dry-run"}), exit_done);
  EXPECT_FALSE(fs::exists(store()));
  for (const std::string& id : script.trained)
    EXPECT_EQ(id.find("try-"), 0u) << id;  // for the estimate of the time
}

TEST_F(SessionTest, RecordsCarryProvenance) {
  ASSERT_EQ(call({"run"}), exit_done);
  for (const auto& [id, record] : read_store(store()).records) {
    for (const char* key : {"host", "cpu", "os", "device", "threads", "version", "commit", "dirty",
                            "compiler", "build_type", "started", "finished", "command", "wall_s"})
      EXPECT_TRUE(record.provenance.contains(key)) << key;
    EXPECT_EQ(record.provenance["wall_s"], 0.5);
  }
}

TEST_F(SessionTest, FailuresAreToldAtOnceAndRetriedOnRequestOnly) {
  script.failing = {1, 3};
  EXPECT_EQ(call({"run"}), exit_some_failed);
  const std::string failed = script.trained[1];
  EXPECT_NE(err_.find(failed + " (linear, seed 2) failed: out of luck"), std::string::npos) << err_;
  EXPECT_NE(err_.find("--only " + failed), std::string::npos) << err_;
  EXPECT_EQ(out_, store().string() + "\n");

  script.failing = {};
  EXPECT_EQ(call({"run"}), exit_some_failed) << "a run with failures in the store is not all done";
  EXPECT_TRUE(script.trained.empty());
  EXPECT_EQ(call({"retry", "--only", failed.substr(0, 12)}), exit_done);
  EXPECT_EQ(script.trained, std::vector<std::string>{failed});
  EXPECT_EQ(call({"retry"}), exit_done);
  EXPECT_EQ(script.trained.size(), 1u);
  EXPECT_EQ(call({"retry"}), exit_done);
  EXPECT_TRUE(script.trained.empty());
  EXPECT_EQ(call({"run"}), exit_done);
}

TEST_F(SessionTest, DivergedIsAResult) {
  script.diverging = {0};
  EXPECT_EQ(call({"run"}), exit_done);
  EXPECT_NE(err_.find("4 done, 1 diverged"), std::string::npos) << err_;
  EXPECT_EQ(call({"run"}), exit_done);
  EXPECT_TRUE(script.trained.empty());
}

TEST_F(SessionTest, MaxFailuresEndsTheRun) {
  script.failing = {0, 1, 2, 3, 4};
  EXPECT_EQ(call({"run", "--max-failures", "2"}), exit_some_failed);
  EXPECT_EQ(script.trained.size(), 2u);
  EXPECT_NE(err_.find("3 of 5 were not trained"), std::string::npos) << err_;
}

// A node whose GPU is broken fails every run within seconds, and would eat the whole study.
TEST_F(SessionTest, AWorkerOnABrokenDeviceLeaves) {
  script.signal_after = 0;
  EXPECT_EQ(call({"run", "--set", "seeds=1,2,3,4,5,6,7,8,9,10,11,12"}), exit_stopped);
  script.signal_after = 1000;
  for (std::size_t i = 0; i < 12; ++i) script.failing.insert(i);
  EXPECT_EQ(call_program({"work", "--device", "cpu", store().string()}), exit_device);
  EXPECT_EQ(script.trained.size(), 8u);
  EXPECT_NE(err_.find("the first 8 runs on cpu of "), std::string::npos) << err_;
  EXPECT_NE(err_.find("this device is left out"), std::string::npos) << err_;
  script.failing = {1, 2};
  EXPECT_EQ(call_program({"work", "--device", "cpu", store().string()}), exit_some_failed);
  EXPECT_EQ(script.trained.size(), 4u);
  EXPECT_NE(err_.find("10 runs failed"), std::string::npos) << err_;
}

TEST_F(SessionTest, ADeafTrainerIsLeftAfterTheGrace) {
  script.signal_after = 2;
  script.deaf = false;
  EXPECT_EXIT(
      {
        script.deaf = true;
        call({"run", "--time-limit", "0.3", "--grace", "0.3"});
      },
      ::testing::ExitedWithCode(exit_stopped), "");
}

TEST_F(SessionTest, TimeLimitsAreChecked) {
  for (const char* bad : {"", "x", "-1", "0", "1:2x", "5d", "::", "nan"}) {
    EXPECT_EQ(call({"run", std::string("--time-limit=") + bad}), exit_usage) << bad;
    EXPECT_FALSE(fs::exists(store()));
  }
  EXPECT_EQ(call({"run", "--time-limit", "01:00:00"}), exit_done) << err_;
  EXPECT_EQ(call({"run", "--time-limit", "2h"}), exit_done) << err_;
}

TEST_F(SessionTest, OnlyNeedsOneRunOfTheStudy) {
  EXPECT_EQ(call({"run", "--only", "ct-"}), exit_usage);
  EXPECT_NE(err_.find("5 runs begin so"), std::string::npos) << err_;
  EXPECT_EQ(call({"run", "--only", "ct-xyz"}), exit_usage);
  EXPECT_FALSE(fs::exists(store()));
}

TEST_F(SessionTest, ADeviceErrorIsExitCode4) {
  script.device_error = true;
  EXPECT_EQ(call({"run"}), exit_device);
  EXPECT_NE(err_.find("the device was lost"), std::string::npos) << err_;
}

TEST_F(SessionTest, CudaIsRefusedBeforeAnythingIsMade) {
  if (built_with_cuda()) GTEST_SKIP() << "built with CUDA";
  EXPECT_EQ(call({"run", "--device", "cuda"}), exit_device);
  EXPECT_NE(err_.find("built without CUDA"), std::string::npos) << err_;
  EXPECT_FALSE(fs::exists(store()));
}

TEST_F(SessionTest, QuietSaysNothingButThePath) {
  EXPECT_EQ(call({"run", "--quiet"}), exit_done);
  EXPECT_EQ(err_, "");
  EXPECT_EQ(out_, store().string() + "\n");
}

}  // namespace
}  // namespace program
}  // namespace crosstalk
