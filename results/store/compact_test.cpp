// Compacting changes how a store lies on disk, and nothing that it says.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/compact.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>

#include "results/store/claims.h"
#include "results/store/file_system.h"
#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using testing::make_record;
using testing::TemporaryFolder;
using testing::TemporaryStore;

/// Without provenance: of equal records any may count.
std::map<std::string, std::string> lines_of(const fs::path& store) {
  std::map<std::string, std::string> lines;
  for (auto& [id, record] : read_store(store).records) {
    Record result = record;
    result.provenance = nullptr;
    lines[id] = to_line(result);
  }
  return lines;
}

/// Three shards; a run that failed before it was done, and one that is recorded twice.
void make_store(const fs::path& store) {
  for (int shard = 0; shard < 3; ++shard) {
    StoreWriter writer(store);
    for (int n = 0; n < 5; ++n) writer.append(make_record(10 * shard + n));
    Record record = make_record(100);
    if (shard == 0) record.status = RunStatus::failed;
    if (shard > 0) record.provenance["shard"] = shard;
    writer.append(record);
  }
}

TEST(Compact, KeepsWhatCountsOfEachRun) {
  const TemporaryStore store;
  make_store(store);
  const auto before = lines_of(store);
  ASSERT_EQ(before.size(), 16u);
  const Compacted done = compact_store(store);
  EXPECT_EQ(done.shards, 3u);
  EXPECT_EQ(done.records, 16u);
  EXPECT_EQ(done.dropped, 2u);
  EXPECT_EQ(list_shards(store).size(), 1u);
  EXPECT_EQ(lines_of(store), before);
  EXPECT_EQ(read_store(store).duplicates, 0u);
  EXPECT_EQ(compact_store(store).dropped, 0u);
  EXPECT_EQ(lines_of(store), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(store / "shards"), {}), 1) << "no temporary file stays";
}

TEST(Compact, LeavesLivingWritersAlone) {
  const TemporaryStore store;
  make_store(store);
  StoreWriter writer(store);
  writer.append(make_record(200));
  const Compacted done = compact_store(store);
  EXPECT_EQ(done.busy, 1u);
  EXPECT_EQ(done.shards, 3u);
  writer.append(make_record(201));
  EXPECT_EQ(read_store(store).records.size(), 18u);
  EXPECT_EQ(list_shards(store).size(), 2u);
}

// Killed between any two of its steps: the new shard beside all, or some, of the old ones.
TEST(Compact, NothingIsLostHalfWay) {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s", old = folder.path() / "old";
  make_store(store);
  const auto before = lines_of(store);
  fs::copy(store / "shards", old);
  compact_store(store);
  for (const auto& entry : fs::directory_iterator(old)) {
    fs::copy(entry.path(), store / "shards");
    EXPECT_EQ(lines_of(store), before);
    EXPECT_TRUE(read_store(store).conflicts.empty());
  }
  testing::spill(store / "shards" / ".compact-host-1.tmp", "{\"v\":1");
  EXPECT_EQ(lines_of(store), before);
  compact_store(store);
  EXPECT_EQ(lines_of(store), before);
}

TEST(Compact, DamageIsRepairedFirstAndContradictionsAreKept) {
  const TemporaryStore store;
  make_store(store);
  std::ofstream(list_shards(store).at(1), std::ios::app) << "nonsense\n{\"v\":1,\"id\":\"to";
  const auto before = lines_of(store);
  compact_store(store);
  EXPECT_EQ(lines_of(store), before);
  EXPECT_TRUE(fs::exists(store / "quarantine"));

  Record other = make_record(3);
  other.eval_loss *= 2;
  StoreWriter(store).append(other);
  EXPECT_THROW(compact_store(store), StoreError);
  EXPECT_EQ(read_store(store).conflicts.size(), 1u);
}

/// A network file system on which every lock is had at once, and whatever a test lets happen before a shard is renamed or
/// removed.
struct Lockless : FileSystem {
  int flock(int, int) override { return 0; }
  int rename(const std::string& from, const std::string& to) override {
    if (before_rename) before_rename(from);
    return FileSystem::rename(from, to);
  }
  int unlink(const std::string& path) override {
    if (before_unlink && fs::path(path).extension() == ".jsonl") before_unlink();
    return FileSystem::unlink(path);
  }
  std::function<void(const std::string&)> before_rename;
  std::function<void()> before_unlink;
};

TEST(Compact, AWriterThatOnlyItsHeartbeatShowsIsLeftAlone) {
  const TemporaryStore store;
  make_store(store);
  for (const fs::path& shard : list_shards(store))  // of a process that is gone
    fs::rename(shard, store / "shards" /
                          ("gone-1-" + shard.filename().string().substr(shard.stem().string().size() - 1)));
  Claims claims(store, {});
  ASSERT_TRUE(claims.take("ct-a"));
  Lockless system;
  StoreWriter writer(store, system);
  writer.append(make_record(200));
  const Compacted done = compact_store(store, system);
  EXPECT_EQ(done.busy, 1u);
  EXPECT_EQ(done.shards, 3u);
  EXPECT_EQ(list_shards(store).size(), 2u);
  writer.append(make_record(201));
  EXPECT_EQ(read_store(store).records.size(), 18u);
  EXPECT_EQ(list_shards(store).size(), 2u) << "the writer still has its shard";
}

// Neither locks nor claims show the writer: at worst its shard goes, no record does.
TEST(Compact, WhatIsAppendedWhileItMergesIsNotLost) {
  for (const bool late : {false, true}) {
    const TemporaryStore store;
    make_store(store);
    Lockless system;
    StoreWriter writer(store, system);
    writer.append(make_record(200));
    int next = 201;
    const auto append = [&] { writer.append(make_record(next++)); };
    if (late)
      system.before_unlink = append;
    else
      system.before_rename = [&](const std::string& from) {
        if (fs::path(from).filename().string().rfind("compact-", 0) != 0) append();
      };
    compact_store(store, system);
    writer.append(make_record(next++));
    EXPECT_GT(next, 203) << "it was called";
    const StoreContents contents = read_store(store);
    EXPECT_EQ(contents.records.size(), static_cast<std::size_t>(16 + next - 200));
    EXPECT_EQ(contents.bad_lines + contents.torn_tails + contents.conflicts.size(), 0u);
  }
}

TEST(Compact, AShardThatGrewStaysUnderItsName) {
  const TemporaryStore store;
  make_store(store);
  Lockless system;
  StoreWriter writer(store, system);
  writer.append(make_record(200));
  std::vector<fs::path> before = list_shards(store);
  bool once = true;
  system.before_rename = [&](const std::string&) {
    if (std::exchange(once, false)) writer.append(make_record(201));
  };
  const Compacted done = compact_store(store, system);
  EXPECT_EQ(done.busy, 1u);
  const std::vector<fs::path> after = list_shards(store);
  EXPECT_EQ(after.size(), 2u);
  EXPECT_TRUE(std::ranges::any_of(
      after, [&](const fs::path& path) { return std::ranges::find(before, path) != before.end(); }));
  EXPECT_EQ(read_store(store).records.size(), 18u);
}

TEST(Compact, AWriteInProgressElsewhereIsNoDamage) {
  const TemporaryStore store;
  make_store(store);
  StoreWriter writer(store);
  writer.append(make_record(200));
  const auto shards = list_shards(store);
  for (const fs::path& shard : shards)
    if (testing::slurp(shard).find(make_record(200).id) != std::string::npos)
      std::ofstream(shard, std::ios::app) << "{\"v\":1,\"id\":\"ct-";
  const Compacted done = compact_store(store);
  EXPECT_EQ(done.busy, 1u);
  EXPECT_EQ(read_store(store).records.size(), 17u);
}

}  // namespace
}  // namespace crosstalk
