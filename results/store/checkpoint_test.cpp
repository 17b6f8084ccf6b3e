// SPDX-License-Identifier: Apache-2.0
#include "results/store/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "results/store/claims.h"
#include "results/store/files.h"
#include "results/store/leftovers.h"
#include "results/store/store.h"
#include "results/store/weights.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

class Checkpoint : public ::testing::Test {
 protected:
  void SetUp() override { testing::spill(store_ / "store.json", "{}"); }
  /// What would be used.
  std::string state_of(const std::string& id) {
    const SavedState saved = load_checkpoint(store_, id);
    EXPECT_TRUE(saved.state.empty() || saved.problem.empty()) << saved.problem;
    return saved.state;
  }
  testing::TemporaryFolder folder_;
  const std::filesystem::path store_ = folder_.path();
};

TEST_F(Checkpoint, ComesBackByteForByteAndCanBeForgotten) {
  const std::string state("a line\n\0binary\xff", 15);
  EXPECT_EQ(state_of("ct-1"), "");
  save_checkpoint(store_, "ct-1", "older");
  save_checkpoint(store_, "ct-1", state);
  EXPECT_EQ(state_of("ct-1"), state);
  EXPECT_EQ(state_of("ct-2"), "");
  drop_checkpoint(store_, "ct-1");
  drop_checkpoint(store_, "ct-1");
  EXPECT_EQ(state_of("ct-1"), "");
}

TEST_F(Checkpoint, RunsWithAStateAreListed) {
  EXPECT_EQ(checkpointed(store_), std::set<std::string>());
  save_checkpoint(store_, "ct-1", "a");
  save_checkpoint(store_, "ct-2", "b");
  std::ofstream(store_ / "checkpoints" / ".ct-3.state.host-1-0.tmp") << "being written";
  std::ofstream(store_ / "checkpoints" / "notes") << "somebody's";
  EXPECT_EQ(checkpointed(store_), (std::set<std::string>{"ct-1", "ct-2"}));
}

TEST_F(Checkpoint, DamageReadsAsNone) {
  save_checkpoint(store_, "ct-1", "0123456789");
  const auto path = store_ / "checkpoints" / "ct-1.state";
  const auto size = std::filesystem::file_size(path);
  for (std::uintmax_t n = 0; n < size; ++n) {
    save_checkpoint(store_, "ct-1", "0123456789");
    std::filesystem::resize_file(path, n);
    EXPECT_EQ(state_of("ct-1"), "") << "cut at " << n;
    EXPECT_NE(load_checkpoint(store_, "ct-1").problem, "") << "cut at " << n;
  }
  save_checkpoint(store_, "ct-1", "0123456789");
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(12).put('x');
  EXPECT_EQ(state_of("ct-1"), "");
}

TEST_F(Checkpoint, WhatCannotBeUsedIsSetAside) {
  for (const char* text : {"first", "second"}) {
    save_checkpoint(store_, "ct-1", text);
    const auto moved = set_aside_checkpoint(store_, "ct-1");
    EXPECT_EQ(moved.parent_path(), store_ / "quarantine");
    EXPECT_EQ(state_of("ct-1"), "");
    EXPECT_EQ(load_checkpoint(store_, "ct-1").problem, "");  // there is none any more
    std::ifstream file(moved);
    std::string checksum, state;
    std::getline(file, checksum);
    std::getline(file, state);
    EXPECT_EQ(state, text);
  }
  EXPECT_THROW(set_aside_checkpoint(store_, "ct-1"), StoreError);
}

TEST_F(Checkpoint, AStoreThatIsGoneIsNotMadeAnew) {
  std::filesystem::remove_all(store_);
  EXPECT_THROW(save_checkpoint(store_, "ct-1", "state"), StoreError);
  EXPECT_FALSE(std::filesystem::exists(store_));
}

TEST_F(Checkpoint, WhatKillsLeaveIsSwept) {
  const auto folder = store_ / "checkpoints";
  for (const char* id : {"ct-1", "ct-2", "ct-3"}) {
    save_checkpoint(store_, id, "state");
    std::ofstream(folder / ("." + std::string(id) + ".state.a.host-12-0.tmp")) << "half a sta";
  }
  std::ofstream(folder / "notes.txt") << "mine";
  const auto over = [](const std::string& id) { return id != "ct-2"; };
  {
    Claims claims(store_, {});
    ASSERT_TRUE(claims.take("ct-3"));  // somebody still trains it
    EXPECT_EQ(sweep_checkpoints(store_, over), 2u);
    EXPECT_EQ(state_of("ct-1"), "");
    EXPECT_EQ(state_of("ct-2"), "state");
    EXPECT_EQ(state_of("ct-3"), "state");
  }
  EXPECT_EQ(sweep_checkpoints(store_, over), 2u);
  EXPECT_EQ(sweep_checkpoints(store_, over), 0u);
  EXPECT_EQ(state_of("ct-2"), "state");
  EXPECT_TRUE(std::filesystem::exists(folder / "notes.txt"));
  EXPECT_EQ(sweep_checkpoints(store_ / "absent", over), 0u);
}

// Of a process of this machine that is gone; of others after a day. What may still be written stays.
TEST_F(Checkpoint, TemporaryFilesOfTheDeadAreSwept) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::string host = process_name();
  host.resize(host.rfind('-', host.rfind('-') - 1));
  const auto name = [&](const std::string& begin, const std::string& on, pid_t pid) {
    return "." + begin + on + "-" + std::to_string(pid) + "-0123abcd";
  };
  const std::filesystem::path studies = store_ / "studies";
  const auto old = std::filesystem::file_time_type::clock::now() - std::chrono::seconds(60);
  const auto older = old - std::chrono::hours(25);
  const auto make = [&](const std::filesystem::path& path, std::filesystem::file_time_type time) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << "x";
    std::filesystem::last_write_time(path, time);
    return path;
  };
  std::vector<std::filesystem::path> dead = {
      make(studies / (name("a.toml.", host, child) + "-0.tmp"), old),
      make(store_ / (name("store.json.", host, child) + "-12.tmp"), old),
      make(store_ / "shards" / (name("compact-", host, child) + ".tmp"), old),
      make(store_ / "checkpoints" / (name("ct-1.state.", host, child) + "-0.tmp"), old),
      make(studies / (name("a.toml.", "elsewhere", child) + "-0.tmp"), older),
  };
  std::vector<std::filesystem::path> kept = {
      make(studies / (name("b.toml.", host, child) + "-0.tmp"),
           std::filesystem::file_time_type::clock::now()),
      make(studies / (name("b.toml.", host, ::getpid()) + "-0.tmp"), old),
      make(studies / (name("b.toml.", "elsewhere", child) + "-0.tmp"), old),
      make(studies / ".notes.tmp", older),
      make(studies / ("a" + host + "-1-0123abcd-0.tmp"), older),
      make(studies / "b.toml", older),
  };
  EXPECT_EQ(sweep_temporaries(store_), dead.size());
  for (const auto& path : dead) EXPECT_FALSE(std::filesystem::exists(path)) << path;
  for (const auto& path : kept) EXPECT_TRUE(std::filesystem::exists(path)) << path;
  EXPECT_EQ(sweep_temporaries(store_ / "absent"), 0u);
}

TEST_F(Checkpoint, AnIdIsANameAndNeverAPath) {
  for (const char* id : {"", ".", "..", "../x", "a/b", "/etc/passwd", ".x"}) {
    EXPECT_THROW(save_checkpoint(store_, id, "state"), StoreError) << id;
    EXPECT_THROW(weights_path(store_, id), StoreError) << id;
  }
}

// What is no regular file is never waited for.
TEST_F(Checkpoint, FoldersPipesAndDevicesAreProblems) {
  std::filesystem::create_directories(store_ / "checkpoints" / "ct-1.state" / "below");
  ASSERT_EQ(::mkfifo((store_ / "checkpoints" / "ct-2.state").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", store_ / "checkpoints" / "ct-3.state");
  std::filesystem::create_symlink("nowhere", store_ / "checkpoints" / "ct-4.state");
  for (const char* id : {"ct-1", "ct-2", "ct-3", "ct-4"}) {
    EXPECT_EQ(state_of(id), "") << id;
    EXPECT_NE(load_checkpoint(store_, id).problem, "") << id;
    set_aside_checkpoint(store_, id);
    EXPECT_EQ(load_checkpoint(store_, id).problem, "") << id;
  }
}

}  // namespace
}  // namespace crosstalk
