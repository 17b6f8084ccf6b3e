// What was added to a store, and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/follow.h"

#include <gtest/gtest.h>

#include <fstream>

#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

using testing::make_record;
using testing::TemporaryStore;

std::vector<std::string> ids_of(const std::vector<RecordHead>& heads) {
  std::vector<std::string> ids;
  for (const RecordHead& head : heads) ids.push_back(head.id);
  return ids;
}

TEST(Follow, TellsEachAddedRecordOnce) {
  const TemporaryStore store;
  StoreFollower before(store, shard_positions(store));  // there is no store yet
  EXPECT_TRUE(before.added().empty());
  StoreWriter one(store), two(store);
  one.append(make_record(0));
  StoreFollower follower(store, shard_positions(store));
  EXPECT_TRUE(follower.added().empty());
  Record failed = make_record(1);
  failed.status = RunStatus::failed;
  one.append(failed);
  Record winner = make_record(2);
  winner.provenance = {{"command", "\"race\":\"race-0\""}, {"race", "race-1"}, {"wall_s", 1}};
  two.append(winner);
  const std::vector<RecordHead> heads = follower.added();
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[0].race + heads[1].race, "race-1");
  EXPECT_EQ(ids_of(heads), (std::vector<std::string>{failed.id, make_record(2).id}));
  EXPECT_EQ(heads[0].status, RunStatus::failed);
  EXPECT_EQ(heads[1].steps, 200);
  EXPECT_TRUE(follower.added().empty());
  EXPECT_EQ(before.added().size(), 3u);
}

// Whatever the moment at which it looks, it misses no record that ends later, and invents none.
TEST(Follow, ALineInTheMakingComesWhenItIsWhole) {
  const TemporaryStore store;
  { StoreWriter(store).append(make_record(0)); }
  const auto shard = list_shards(store).at(0);
  const std::string line = to_line(make_record(1)) + "\n";
  for (std::size_t cut = 0; cut < line.size(); cut += 7) {
    const std::string first = to_line(make_record(0)) + "\n";
    testing::spill(shard, first + line.substr(0, cut));
    StoreFollower follower(store, shard_positions(store));
    EXPECT_TRUE(follower.added().empty());
    std::ofstream(shard, std::ios::app) << line.substr(cut);
    EXPECT_EQ(ids_of(follower.added()), std::vector<std::string>{make_record(1).id}) << cut;
  }
}

TEST(Follow, AShardWrittenAnewIsReadAnew) {
  const TemporaryStore store;
  { StoreWriter(store).append(make_record(0)); }
  const auto shard = list_shards(store).at(0);
  StoreFollower follower(store, shard_positions(store));
  EXPECT_TRUE(follower.added().empty());
  testing::spill(shard.parent_path() / "new",
                 to_line(make_record(3)) + "\n" + to_line(make_record(4)) + "\n");
  std::filesystem::rename(shard.parent_path() / "new", shard);
  EXPECT_EQ(follower.added().size(), 2u);
  std::ofstream(shard, std::ios::app) << "nonsense\n" << to_line(make_record(5)) << "\n";
  EXPECT_EQ(ids_of(follower.added()), std::vector<std::string>{make_record(5).id});
}

}  // namespace
}  // namespace crosstalk
