// Claims: one holder a run, take-over of the dead, and nothing that anybody can delete breaks them.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/claims.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>

#include "results/readers_fuzz.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

/// A process of another machine, with a clock of its own that stands still unless it is moved.
struct Elsewhere {
  explicit Elsewhere(const std::string& host, double now = 0) : time(std::make_shared<double>(now)) {
    options.process = {host, "boot of " + host, "pid:[1]", 7, 7};
    options.clock = [time = time] { return *time; };
  }
  std::shared_ptr<double> time;
  ClaimOptions options;
};

std::size_t files_in(const fs::path& folder) {
  return fs::exists(folder) ? static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})) : 0;
}

/// A process of this machine that claims `ids` and is gone without a word.
void die_holding(const fs::path& store, const std::vector<std::string>& ids) {
  const pid_t child = ::fork();
  if (child == 0) {
    Claims claims(store, {});
    bool all = true;
    for (const std::string& id : ids) all = claims.take(id) && all;
    ::_exit(all ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST(Claims, ARunHasOneHolder) {
  const TemporaryFolder folder;
  {
    Claims one(folder.path(), {}), two(folder.path(), {});
    EXPECT_TRUE(one.take("ct-a"));
    EXPECT_TRUE(one.take("ct-a"));
    EXPECT_FALSE(two.take("ct-a"));
    EXPECT_TRUE(two.take("ct-b"));
    EXPECT_EQ(one.of_others(), std::set<std::string>{"ct-b"});
    EXPECT_EQ(two.of_others(), std::set<std::string>{"ct-a"});
    two.release("ct-a");  // not its own
    EXPECT_FALSE(two.take("ct-a"));
    one.release("ct-a");
    EXPECT_TRUE(two.take("ct-a"));
    EXPECT_TRUE(one.beat({}).empty());
    EXPECT_EQ(one.problem() + two.problem(), "");
  }
  EXPECT_FALSE(fs::exists(folder.path() / "claims")) << "nothing is left behind";
}

TEST(Claims, WhoDiedOnThisMachineIsReplacedAtOnce) {
  const TemporaryFolder folder;
  die_holding(folder.path(), {"ct-a", "ct-b"});
  EXPECT_EQ(files_in(folder.path() / "claims"), 3u);
  Claims claims(folder.path(), {});
  EXPECT_TRUE(claims.take("ct-a"));
  EXPECT_TRUE(claims.of_others().empty());
  EXPECT_EQ(files_in(folder.path() / "claims"), 2u);
}

// Of the processes that see a worker dead, one gets each of its runs.
TEST(Claims, HeirsDoNotShareARun) {
  const std::vector<std::string> ids = {"ct-0", "ct-1", "ct-2", "ct-3", "ct-4", "ct-5", "ct-6", "ct-7"};
  for (int round = 0; round < 30; ++round) {
    const TemporaryFolder folder;
    die_holding(folder.path(), ids);
    int results[2], end[2], leave[2];
    ASSERT_EQ(::pipe(results) + ::pipe2(end, O_NONBLOCK) + ::pipe(leave), 0);
    std::vector<pid_t> children;
    for (int process = 0; process < 4; ++process) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      ::close(end[1]), ::close(leave[1]);
      char byte = 0;
      std::set<std::string> mine;
      Claims claims(folder.path(), {});
      while (::read(end[0], &byte, 1) != 0) {  // until the parent closes its end
        for (const std::string& id : ids)
          if (claims.take(id) && mine.insert(id).second) (void)!::write(results[1], id.data() + 3, 1);
      }
      ::close(results[1]);
      (void)!::read(leave[0], &byte, 1);  // who left would be dead, and have heirs
      ::_exit(0);
    }
    ::close(results[1]);
    std::string taken;
    char byte = 0;
    while (taken.size() < ids.size() && ::read(results[0], &byte, 1) == 1) taken += byte;
    ::usleep(2000);
    ::close(end[0]), ::close(end[1]);
    while (::read(results[0], &byte, 1) == 1) taken += byte;
    ::close(results[0]), ::close(leave[0]), ::close(leave[1]);
    for (const pid_t child : children) ::waitpid(child, nullptr, 0);
    std::ranges::sort(taken);
    EXPECT_EQ(taken, "01234567") << "round " << round;
  }
}

TEST(Claims, AnotherMachineIsJudgedByItsHeartbeatAndOnesOwnClock) {
  const TemporaryFolder folder;
  Elsewhere far("far", 1e9), near("near");
  Claims theirs(folder.path(), far.options), ours(folder.path(), near.options);
  ASSERT_TRUE(theirs.take("ct-a"));
  EXPECT_FALSE(ours.take("ct-a"));
  for (int i = 0; i < 100; ++i) {
    *near.time += 50;  // beats come late, but they come
    *far.time -= 1000;
    theirs.beat({});
    EXPECT_FALSE(ours.take("ct-a"));
    EXPECT_EQ(ours.of_others().count("ct-a"), 1u);
  }
  *near.time += 59;
  EXPECT_FALSE(ours.take("ct-a"));
  *near.time += 2;  // the lease is over
  EXPECT_TRUE(ours.take("ct-a"));
  // It was not dead, only held up: it learns what it has lost, and goes on.
  EXPECT_EQ(theirs.beat({}), std::vector<std::string>{"ct-a"});
  EXPECT_TRUE(theirs.beat({}).empty());
  EXPECT_FALSE(theirs.take("ct-a"));
  EXPECT_TRUE(theirs.take("ct-b"));
  EXPECT_FALSE(ours.take("ct-b"));
}

TEST(Claims, AProcessOfItsNumberIsNotTheProcess) {
  ProcessIdentity self = this_process();
  EXPECT_EQ(pulse_of(self, self), Pulse::alive);
  EXPECT_EQ(process_identity(to_json(self))->started, self.started);
  ProcessIdentity other = self;
  other.started += 1;
  EXPECT_EQ(pulse_of(other, self), Pulse::dead);
  other = self;
  other.boot = "another";
  EXPECT_EQ(pulse_of(other, self), Pulse::unknown);
  other = self;
  other.space = "pid:[1]";
  EXPECT_EQ(pulse_of(other, self), Pulse::unknown);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  other = self;
  other.pid = child;
  siginfo_t ended{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(pulse_of(other, self), Pulse::dead);  // a zombie
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(pulse_of(other, self), Pulse::dead);
  EXPECT_FALSE(process_identity(nlohmann::json{{"host", 3}}).has_value());
  nlohmann::json json = to_json(self);
  json["started"] = 7e60;  // found by fuzzing: no number of 64 bits
  EXPECT_FALSE(process_identity(json).has_value());
  json["started"] = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(process_identity(json).has_value());
}

TEST(Claims, AllMayBeDeletedAtAnyTime) {
  const TemporaryFolder folder;
  Claims one(folder.path(), {}), two(folder.path(), {});
  ASSERT_TRUE(one.take("ct-a") && one.take("ct-b"));
  fs::remove_all(folder.path() / "claims");
  EXPECT_TRUE(two.take("ct-b"));
  EXPECT_EQ(one.beat({}), std::vector<std::string>{"ct-b"});
  EXPECT_FALSE(two.take("ct-a"));  // restored by the beat
  EXPECT_TRUE(one.take("ct-c"));
  fs::remove_all(folder.path() / "claims");
  EXPECT_TRUE(one.take("ct-d"));
  one.release("ct-d");
  EXPECT_TRUE(one.beat({}).empty());
  EXPECT_FALSE(two.take("ct-c"));
}

// Links whose worker has no file, and files that nobody understands, stand for a lease and no longer.
TEST(Claims, LeftoversExpire) {
  const TemporaryFolder folder;
  const fs::path claims = folder.path() / "claims";
  fs::create_directories(claims);
  fs::create_symlink("gone.worker", claims / "ct-a");
  fs::create_symlink("../../etc/passwd", claims / "ct-b");
  fs::create_symlink("bad.worker", claims / "ct-c");
  testing::spill(claims / "bad.worker", "{\"beat\":\xff");
  testing::spill(claims / "ct-d", "text");
  ASSERT_EQ(::mkfifo((claims / "pipe.worker").c_str(), 0600), 0);
  fs::create_symlink("pipe.worker", claims / "ct-e");
  Elsewhere here("here");
  Claims ours(folder.path(), here.options);
  const std::vector<std::string> ids = {"ct-a", "ct-b", "ct-c", "ct-d", "ct-e"};
  for (const std::string& id : ids) EXPECT_FALSE(ours.take(id)) << id;
  *here.time += 61;
  for (const std::string& id : ids) EXPECT_TRUE(ours.take(id)) << id;
  EXPECT_TRUE(ours.beat({}).empty());
  EXPECT_EQ(ours.problem(), "");
}

// No number in a worker's file makes others wait for longer than for one that says nothing: a worker beats every 5 s.
TEST(Claims, AHeartbeatThatNobodyHasIsNone) {
  for (const char* every : {"1e300", "16", "0", "-1", "1e-400"}) {
    const TemporaryFolder folder;
    const fs::path claims = folder.path() / "claims";
    fs::create_directories(claims);
    testing::spill(claims / "far.worker",
                   fmt::format(R"({{"process":{{"host":"h","boot":"b","space":"s","pid":7,"started":7}},)"
                               R"("beat":3,"every":{},"activity":{{}}}})",
                               every));
    fs::create_symlink("far.worker", claims / "ct-a");
    Elsewhere here("here");
    Claims ours(folder.path(), here.options);
    EXPECT_FALSE(ours.take("ct-a")) << every;
    *here.time += 61;
    EXPECT_TRUE(ours.take("ct-a")) << every;
    EXPECT_EQ(WorkerWatch(folder.path(), here.options).workers().size(), 1u) << every;  // ours
  }
}

// What a link says is a name, never a path: nothing outside of the folder is touched.
TEST(Claims, ALinkToAPathTouchesNothingThere) {
  const TemporaryFolder folder;
  const fs::path claims = folder.path() / "claims", other = folder.path() / "other";
  fs::create_directories(claims);
  for (const char* name : {"data", "data.dead", "x.worker", "x.worker.dead"})
    testing::spill(other / name, "mine");
  fs::create_symlink(other / "data", claims / "ct-0");
  fs::create_symlink("../other/data", claims / "ct-1");
  fs::create_symlink(other / "x.worker", claims / "ct-2");
  fs::create_symlink("../other/x.worker", claims / "ct-3");
  Elsewhere here("here");
  Claims ours(folder.path(), here.options);
  const std::vector<std::string> ids = {"ct-0", "ct-1", "ct-2", "ct-3"};
  for (const std::string& id : ids) EXPECT_FALSE(ours.take(id)) << id;
  EXPECT_EQ(ours.of_others().size(), 4u);
  *here.time += 61;
  EXPECT_TRUE(ours.of_others().empty());
  for (const std::string& id : ids) EXPECT_TRUE(ours.take(id)) << id;
  for (const char* name : {"data", "data.dead", "x.worker", "x.worker.dead"})
    EXPECT_EQ(testing::slurp(other / name), "mine") << name;
}

TEST(Claims, WhatABurierLeftIsCleared) {
  const TemporaryFolder folder;
  const fs::path claims = folder.path() / "claims";
  fs::create_directories(claims);
  testing::spill(claims / "gone-1-00000001-00000002.worker.dead", "{}");
  fs::create_symlink("gone-1-00000001-00000002.worker", claims / "ct-0");
  Elsewhere here("here");
  {
    Claims ours(folder.path(), here.options);
    EXPECT_EQ(ours.of_others().size(), 1u);
    *here.time += 61;
    EXPECT_TRUE(ours.of_others().empty());
  }
  EXPECT_EQ(files_in(claims), 0u);
}

// The folder is read once for all, not once for each.
TEST(Claims, ManyDeadWorkersAreClearedAtOnce) {
  const TemporaryFolder folder;
  const fs::path claims = folder.path() / "claims";
  fs::create_directories(claims);
  ClaimOptions options;
  ProcessIdentity dead = options.process;
  dead.started += 1;  // of this number, but not the process
  const std::string text =
      nlohmann::json({{"process", to_json(dead)}, {"beat", 1}, {"every", 5}, {"activity", {}}}).dump();
  constexpr int kWorkers = 10000;
  for (int n = 0; n < kWorkers; ++n) {
    const std::string name = "gone-1-00000001-" + std::to_string(n) + ".worker";
    std::ofstream(claims / name) << text;
    fs::create_symlink(name, claims / ("ct-" + std::to_string(n)));
  }
  Claims ours(folder.path(), options);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(ours.of_others().empty());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(files_in(claims), 0u);
  EXPECT_LT(took.count(), 60) << "ten times what a loaded machine takes; once for each took ten minutes";
}

TEST(Claims, AnyBytesAreReadOrPassedOver) {
  for (
      const std::string& good :
      {std::string(
           R"({"process":{"host":"h","boot":"b","space":"s","pid":7,"started":7},"beat":3,"every":5,"activity":{}})"),
       std::string("host-12-0123abcd-4567abcd.worker"), std::string("../x/.worker"),
       std::string(
           R"({"process":{"host":"h","boot":"b","space":"s","pid":1e30,"started":7},"beat":1e30,"every":-1})")})
    testing::check_mutations(good, {'"', '{', '}', '[', ',', ':', '\\', '0', 'e', '\0', '\xff', '/'},
                             check_claim_readers);
  check_claim_readers(std::string(100000, '['));
  EXPECT_FALSE(is_worker_name("../x.worker"));
  EXPECT_FALSE(is_worker_name(".x.worker"));
  EXPECT_FALSE(is_worker_name(".worker"));
  EXPECT_TRUE(is_worker_name("x.worker"));
}

TEST(Claims, WhereTheyCannotBeKeptRunsAreTrainedAllTheSame) {
  const TemporaryFolder folder;
  testing::spill(folder.path() / "claims", "a file");
  Claims claims(folder.path(), {});
  EXPECT_TRUE(claims.take("ct-a"));
  EXPECT_NE(claims.problem().find("claims cannot be kept: Not a directory"), std::string::npos)
      << claims.problem();
  EXPECT_TRUE(claims.beat({}).empty());
  EXPECT_TRUE(claims.of_others().empty());

  const TemporaryFolder other;
  fs::create_directories(other.path() / "claims" / "ct-a" / "x");
  Elsewhere here("here");
  Claims blocked(other.path(), here.options);
  EXPECT_FALSE(blocked.take("ct-a"));
  *here.time += 61;
  EXPECT_TRUE(blocked.take("ct-a"));
  EXPECT_NE(blocked.problem(), "");
}

TEST(Claims, AWatcherSeesWhoWorksAndWhatTheySay) {
  const TemporaryFolder folder;
  Elsewhere far("far"), near("near");
  Claims claims(folder.path(), far.options);
  ASSERT_TRUE(claims.take("ct-a") && claims.take("ct-b"));
  claims.beat({{"device", "cpu"}});
  WorkerWatch watch(folder.path(), near.options);
  std::vector<ClaimingWorker> workers = watch.workers();
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_EQ(workers[0].process.host, "far");
  EXPECT_EQ(workers[0].activity["device"], "cpu");
  EXPECT_EQ(workers[0].claims, 2);
  EXPECT_TRUE(workers[0].lives);
  *near.time += 61;
  EXPECT_FALSE(watch.workers().at(0).lives);
  claims.beat({});
  *near.time += 1;
  EXPECT_TRUE(watch.workers().at(0).lives);
}

}  // namespace
}  // namespace crosstalk
