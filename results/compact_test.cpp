// Compacting changes how a store lies on disk, and nothing that it says.
// SPDX-License-Identifier: Apache-2.0
#include "results/compact.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "results/record_io.h"
#include "results/shard.h"
#include "results/store.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using testing::make_record;
using testing::TemporaryFolder;

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
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s";
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
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s";
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
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s";
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

}  // namespace
}  // namespace crosstalk
