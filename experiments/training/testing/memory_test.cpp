// Packs short of memory, side by side and alone, on a device whose memory a test limits.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "experiments/training/admission.h"
#include "experiments/training/pack.h"
#include "experiments/training/pack_queue.h"
#include "experiments/training/testing/training_fixture.h"
#include "kernels/base/buffer.h"

namespace crosstalk {
namespace {

using checks::identical_records;
using checks::Keeper;
using checks::on_cpu;
using checks::Records;
using checks::runs_of;

constexpr const char* kSteps = "train.max_steps = 30\neval.every = 10\ntrain.stop_loss = 0\n";

/// Takes its limit back at the end of a test.
struct Limit {
  explicit Limit(std::size_t bytes) { limit_memory(bytes); }
  ~Limit() { limit_memory(0); }
};

std::size_t bytes_of(const Run& run, int slots = 1) { return pack_bytes(run.config, 0, slots, Device::cpu); }

std::vector<Run> loads(const std::string& memory = "name = \"delta\"") {
  return runs_of(kSteps, memory, "[1]", "\"task.associations\" = [4, 5, 6, 7, 8, 9]");
}

Records train(const std::vector<Run>& runs, int threads, int pack) {
  return checks::train(runs, pack, threads);
}

void expect_all_done(const Records& records) {
  for (const auto& [id, record] : records) EXPECT_EQ(record.status, RunStatus::done) << record.message;
}

TEST(Memory, APackNeedsWhatItsMeasureSays) {
  for (const char* task : {"", "task.name = \"reassign\"\neval.length_factors = \"1 2\"\n"}) {
    const auto runs = runs_of(std::string(kSteps) + task, "name = \"delta\"");
    const std::size_t bytes = bytes_of(runs[0]);
    EXPECT_GT(bytes, 1000u);
    {
      const Limit limit(bytes);
      expect_all_done(train(runs, 1, 1));
    }
    const Limit limit(bytes - 64);
    const Record record = train(runs, 1, 1).begin()->second;
    EXPECT_EQ(record.status, RunStatus::failed) << task;
    EXPECT_NE(record.message.find("out of memory: could not get"), std::string::npos) << record.message;
  }
}

TEST(Memory, PacksWaitForTheirNeighboursToEnd) {
  const auto runs = loads();
  const Records alone = train(runs, 1, 1);
  std::size_t most = 0;
  for (const auto& run : runs) most = std::max(most, bytes_of(run));
  for (const std::size_t limit : {most, 2 * most + most / 2}) {
    const Limit one(limit);
    const Records beside = train(runs, 6, 1);
    expect_all_done(beside);
    EXPECT_TRUE(identical_records(alone, beside));
  }
}

TEST(Memory, OnlyTheRunThatDoesNotFitAloneFails) {
  const auto runs = loads();
  std::size_t most = 0;
  std::string largest;
  for (const auto& run : runs)
    if (bytes_of(run) > most) most = bytes_of(run), largest = run.id;
  const Limit limit(most - 64);
  for (const auto& [id, record] : train(runs, 6, 1))
    EXPECT_EQ(record.status, id == largest ? RunStatus::failed : RunStatus::done) << record.message;
}

TEST(Memory, APackThatIsTooLargeIsHalved) {
  const auto runs = runs_of(kSteps, "name = \"delta\"", "{ range = [1, 8] }");
  const Records whole = train(runs, 1, 8);
  const Limit limit(bytes_of(runs[0], 2));  // not 4
  const Records halved = train(runs, 4, 8);
  expect_all_done(halved);
  EXPECT_TRUE(identical_records(whole, halved));
  for (const auto& [id, record] : halved) EXPECT_EQ(record.provenance.at("pack"), 2);
}

// Another program takes memory that was free when packs were admitted: there is room for one, and the second has begun.
TEST(Memory, AShortageBesideOthersIsNoFailure) {
  const auto runs = loads();
  const Records alone = train(runs, 1, 1);
  std::size_t most = 0;
  for (const auto& run : runs) most = std::max(most, bytes_of(run));
  const Limit limit(20 * most);
  struct Client : Keeper {
    void progressed(std::int64_t) override {
      const std::lock_guard lock(mutex);
      has_progressed = true;
      changed.notify_all();
    }
    bool claim(const std::string& id) override {
      std::unique_lock lock(mutex);
      if (!begun.insert(id).second || begun.size() != 2) return true;
      EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(60), [&] { return has_progressed; }));
      limit_memory(room);
      return true;
    }
    std::size_t room = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::string> begun;
    bool has_progressed = false;
  } client;
  client.room = most;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(1, 2), client));
  expect_all_done(client.records);
  EXPECT_TRUE(identical_records(alone, client.records));
}

/// Lets runs wait for memory of other programs.
struct Patient : Keeper {
  bool waits_for_memory(const std::string& id, const std::string& why) override {
    waited.push_back(id);
    EXPECT_NE(why.find("are free"), std::string::npos) << why;
    on_wait();
    return true;
  }
  std::vector<std::string> waited;
  std::function<void()> on_wait = [] {};
};

// Other programs hold too much of the device's memory, until a run waits for it.
TEST(Memory, ARunThatOtherProgramsLeaveNoRoomWaits) {
  const auto runs = loads();
  const Records alone = train(runs, 1, 1);
  std::size_t most = 0;
  for (const auto& run : runs) most = std::max(most, bytes_of(run));
  const Limit limit(0);
  limit_memory(4 * most, 4 * most - most / 2);
  Patient client;
  client.on_wait = [&] { limit_memory(4 * most); };
  EXPECT_TRUE(train_runs("test", runs, on_cpu(1, 2), client));
  expect_all_done(client.records);
  EXPECT_TRUE(identical_records(alone, client.records));
  const std::vector<std::string>& waited = client.waited;
  ASSERT_GE(waited.size(), 1U);
  EXPECT_EQ(std::set<std::string>(waited.begin(), waited.end()).size(), waited.size()) << "told twice";
}

TEST(Memory, ARunThatNoDeviceHoldsDoesNotWait) {
  const auto runs = runs_of(kSteps, "name = \"delta\"");
  const std::size_t bytes = bytes_of(runs[0]);
  const Limit limit(0);
  limit_memory(bytes, bytes / 2);
  Patient client;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(1), client));
  EXPECT_EQ(client.records.at(runs[0].id).status, RunStatus::failed);
  EXPECT_TRUE(client.waited.empty());
}

TEST(Memory, ARunThatShallNotWaitFails) {
  const auto runs = runs_of(kSteps, "name = \"delta\"");
  const std::size_t bytes = bytes_of(runs[0]);
  const Limit limit(0);
  limit_memory(4 * bytes, 4 * bytes - bytes / 2);
  EXPECT_EQ(train(runs, 1, 1).begin()->second.status, RunStatus::failed);
}

TEST(Memory, AStopEndsTheWaiting) {
  const auto runs = runs_of(kSteps, "name = \"delta\"");
  const std::size_t bytes = bytes_of(runs[0]);
  const Limit limit(0);
  limit_memory(4 * bytes, 4 * bytes - bytes / 2);
  Patient client;
  client.on_wait = [&] { client.stop = true; };
  EXPECT_FALSE(train_runs("test", runs, {}, client));
  EXPECT_TRUE(client.records.empty());
}

// The test split of the second run does not fit, when the first of its pack has been recorded.
TEST(Memory, AShortageLeavesEndedRunsOfThePackAlone) {
  const auto runs = runs_of(kSteps, "name = \"delta\"", "[1]", "\"train.stop_loss\" = [1000.0, 0.0]");
  const Limit limit(0);
  struct Client : Keeper {
    void finished(Record&& record) override {
      Keeper::finished(std::move(record));
      limit_memory(1);
    }
  } client;
  EXPECT_TRUE(train_runs("test", runs, on_cpu(2), client));
  EXPECT_EQ(client.records.at(runs[0].id).status, RunStatus::done);
  EXPECT_EQ(client.records.at(runs[1].id).status, RunStatus::failed);
}

TEST(Memory, AdmissionCountsThoseThatTrain) {
  const Limit limit(std::size_t{1} << 30);
  constexpr std::size_t kQuarter = std::size_t{1} << 28;
  Admission admission(Device::cpu);
  EXPECT_FALSE(admission.counts()) << "half of it is free";
  EXPECT_TRUE(admission.ever_fits(4 * kQuarter));
  EXPECT_FALSE(admission.ever_fits(4 * kQuarter + 1));
  EXPECT_TRUE(admission.fits(5 * kQuarter));  // alone, whatever it needs
  const auto first = admission.enter(2 * kQuarter);
  EXPECT_FALSE(first->shared);
  EXPECT_TRUE(admission.fits(2 * kQuarter));
  EXPECT_FALSE(admission.fits(2 * kQuarter + 1));
  const auto second = admission.enter(2 * kQuarter);
  EXPECT_TRUE(first->shared && second->shared);
  EXPECT_FALSE(admission.fits(0)) << "there is nothing left";
  admission.leave(second);
  EXPECT_TRUE(first->shared) << "it was not alone";
  // What failed with two quarters is tried with all of them at most, and not before there is room.
  EXPECT_EQ(admission.after_shortage(0), 0U) << "it was not measured";
  EXPECT_TRUE(admission.counts()) << "from now on all are measured";
  EXPECT_EQ(admission.after_shortage(kQuarter), 2 * kQuarter);
  EXPECT_EQ(admission.after_shortage(3 * kQuarter), 4 * kQuarter);
  EXPECT_FALSE(admission.fits(3 * kQuarter));
  admission.leave(first);
  EXPECT_TRUE(admission.fits(4 * kQuarter));
}

TEST(Memory, OfACpuIsNotCounted) {
  Admission admission(Device::cpu);
  EXPECT_FALSE(admission.counts());
  EXPECT_TRUE(admission.ever_fits(0));
  const auto first = admission.enter(0);
  EXPECT_TRUE(admission.fits(0));
  const auto second = admission.enter(0);
  admission.leave(second);
  // After a std::bad_alloc beside others a pack is tried alone, and then nobody joins it.
  const std::size_t alone = admission.after_shortage(0);
  EXPECT_FALSE(admission.fits(alone));
  admission.leave(first);
  EXPECT_TRUE(admission.ever_fits(alone));
  EXPECT_TRUE(admission.fits(alone));
  admission.enter(alone);
  EXPECT_FALSE(admission.fits(0));
}

TEST(Memory, HalvesHaveHalfTheReplicas) {
  const auto runs = runs_of(kSteps, "name = \"delta\"", "{ range = [1, 5] }");
  QueuedPack pack{10, 0.5, {}};
  for (const auto& run : runs) pack.runs.push_back({&run, ""});
  auto [first, second] = halves(pack, 64);
  EXPECT_EQ(first.runs.size(), 2u);
  EXPECT_EQ(second.runs.size(), 3u);
  EXPECT_EQ(second.slots, 3);
  EXPECT_EQ(first.bytes, 0u) << "it is measured anew";
  std::tie(first, second) = halves(second, second.slots);
  EXPECT_EQ(second.slots, 2);
  std::tie(first, second) = halves(second, second.slots);
  EXPECT_EQ(first.runs.size(), 1u);
  EXPECT_EQ(first.slots, 1);
}

}  // namespace
}  // namespace crosstalk
