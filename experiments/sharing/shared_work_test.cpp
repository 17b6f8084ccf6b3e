// Two sessions on one store: what the one that has nothing left to train is given by the other, and when.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/shared_work.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "results/store.h"
#include "results/test_records.h"

namespace crosstalk::program {
namespace {

constexpr double kLease = 1.5;  ///< seconds: runs of a tenth of a second are given away

void wait(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }
double one(const std::string&) { return 1; }

/// One session holds all eight runs; the other waits for them.
class HandOver : public ::testing::Test {
 protected:
  void SetUp() override {
    runs_ = parse_study(
                "[study]\nname = \"s\"\nseeds = [1, 2, 3, 4, 5, 6, 7, 8]\n[base]\ntask.name = \"recall\"\n"
                "task.associations = 4\nmodel.d_key = 4\n[memories.linear]\nname = \"linear_attention\"\n",
                "s.toml")
                .runs;
    const StoreWriter made(store_.path());
    TrainingOptions training;
    training.threads = 8;
    const auto session = [&] {
      return std::make_unique<SharedWork>(store_.path(), runs_, ShardPositions(), kLease, training);
    };
    holder_ = session(), waiting_ = session();
    for (const auto& run : runs_) ASSERT_TRUE(holder_->wanted(run.id));
    wait(0.2);
    waiting_->ask(one);
    EXPECT_TRUE(holder_->answer(one));
  }

  /// Does what the trainer does at an evaluation of these runs: how many are kept.
  int evaluate(std::size_t begin, std::size_t end) {
    int kept = 0;
    for (std::size_t i = begin; i < end; ++i)
      kept += holder_->give_away(runs_[i].id, [] { return std::string("state"); });
    return kept;
  }

  const crosstalk::testing::TemporaryFolder store_;
  std::vector<crosstalk::Run> runs_;
  std::unique_ptr<SharedWork> holder_, waiting_;
};

TEST_F(HandOver, HalfIsPassedOnTogether) {
  EXPECT_TRUE(waiting_->given().empty());
  EXPECT_EQ(evaluate(0, 8), 4);
  const std::set<std::string> given = waiting_->given();
  EXPECT_EQ(given.size(), 4u);
  for (const std::string& id : given) EXPECT_TRUE(waiting_->wanted(id));
  for (const auto& run : runs_) EXPECT_EQ(holder_->wanted(run.id), given.count(run.id) == 0);
}

// The request stands in a file until who asked has seen what came: it must not be answered twice.
TEST_F(HandOver, WhoWasGivenSomethingIsNotGivenMoreForTheSameRequest) {
  EXPECT_EQ(evaluate(0, 8), 4);
  EXPECT_TRUE(holder_->answer(one));
  EXPECT_EQ(evaluate(0, 8), 0);
  EXPECT_EQ(waiting_->given().size(), 4u);  // withdraws
  EXPECT_FALSE(holder_->answer(one));
  waiting_->ask(one);
  EXPECT_TRUE(holder_->answer(one));
  EXPECT_GT(evaluate(0, 8), 0);
}

// Nobody trains a run that is kept: it does not wait for the evaluation of a slow pack.
TEST_F(HandOver, WhatIsKeptIsPassedOnSoon) {
  int kept = 0;
  for (std::size_t i = 0; i < 8 && kept < 2; ++i) kept += evaluate(i, i + 1);
  ASSERT_EQ(kept, 2);
  holder_->answer(one);
  EXPECT_TRUE(waiting_->given().empty());
  wait(0.4);
  holder_->answer(one);
  EXPECT_EQ(waiting_->given().size(), 2u);
  EXPECT_EQ(evaluate(0, 8), 0) << "the others stay";
}

}  // namespace
}  // namespace crosstalk::program
