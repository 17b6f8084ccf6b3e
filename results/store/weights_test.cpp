// SPDX-License-Identifier: Apache-2.0
#include "results/store/weights.h"

#include <gtest/gtest.h>

#include <fstream>

#include "results/store/checkpoint.h"
#include "results/store/compact.h"
#include "results/store/store.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override { const StoreWriter writer(store_); }
  testing::TemporaryFolder folder_;
  const fs::path store_ = folder_.path();
};

TEST_F(WeightsTest, AreReplacedAsAWhole) {
  EXPECT_TRUE(kept_weights(store_).empty());
  save_weights(store_, "ct-1", "older");
  save_weights(store_, "ct-1", std::string_view("new\0er", 6));
  EXPECT_EQ(read_weights(weights_path(store_, "ct-1")), std::string("new\0er", 6));
  EXPECT_EQ(kept_weights(store_), std::set<std::string>{"ct-1"});
  EXPECT_EQ(std::distance(fs::directory_iterator(store_ / "weights"), {}), 1);
}

TEST_F(WeightsTest, AnArchiveSaysWhoseItIs) {
  const std::string empty = std::string("PK\5\6") + std::string(18, '\0');
  save_weights(store_, "ct-1", empty);
  EXPECT_EQ(read_weights(weights_path(store_, "ct-1")), empty.substr(0, 20) + std::string("\4\0ct-1", 6));
  save_weights(store_, "ct-1", read_weights(weights_path(store_, "ct-1")));
  EXPECT_EQ(read_weights(weights_path(store_, "ct-1")).size(), 26u) << "it says so once";
}

TEST_F(WeightsTest, StayWhenTheStoreIsCompacted) {
  Record record;
  record.id = "ct-1";
  record.config = nlohmann::json::object();
  for (int i = 0; i < 2; ++i) StoreWriter(store_).append(record);
  save_weights(store_, "ct-1", "weights");
  EXPECT_EQ(compact_store(store_).records, 1u);
  EXPECT_EQ(read_weights(weights_path(store_, "ct-1")), "weights");
}

TEST_F(WeightsTest, WhatKillsLeftIsSweptAndNothingElse) {
  save_weights(store_, "ct-1", "weights");
  std::ofstream(store_ / "weights" / ".ct-1.npz.host-1-0.tmp") << "half";
  std::ofstream(store_ / "weights" / ".ct-2.npz.host-1-0.tmp") << "half";
  std::ofstream(store_ / "weights" / "mine.txt") << "kept";
  EXPECT_EQ(kept_weights(store_), std::set<std::string>{"ct-1"});
  EXPECT_EQ(sweep_checkpoints(store_, [](const std::string& id) { return id == "ct-1"; }), 1u);
  EXPECT_FALSE(fs::exists(store_ / "weights" / ".ct-1.npz.host-1-0.tmp"));
  EXPECT_TRUE(fs::exists(store_ / "weights" / ".ct-2.npz.host-1-0.tmp"));
  EXPECT_TRUE(fs::exists(store_ / "weights" / "ct-1.npz"));
  EXPECT_TRUE(fs::exists(store_ / "weights" / "mine.txt"));
}

TEST_F(WeightsTest, AStoreThatIsGoneIsNotMadeAnew) {
  fs::remove_all(store_);
  EXPECT_THROW(save_weights(store_, "ct-1", "weights"), StoreError);
  EXPECT_FALSE(fs::exists(store_));
}

}  // namespace
}  // namespace crosstalk
