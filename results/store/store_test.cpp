// The store: what is written is read, on which paths, by several writers, after damage.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <thread>

#include "results/store/claims.h"
#include "results/store/file_system.h"
#include "results/store/files.h"
#include "results/store/follow.h"
#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/test_records.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using testing::make_record;
using testing::slurp;
using testing::spill;
using testing::TemporaryFolder;
using testing::TemporaryStore;

void append_all(const fs::path& store, int from, int to) {
  StoreWriter writer(store);
  for (int n = from; n < to; ++n) writer.append(make_record(n));
}

// Every record that is read must be one that was written, byte for byte.
void expect_genuine(const StoreContents& contents) {
  for (const auto& [id, record] : contents.records) {
    const int n = std::stoi(id.substr(id.size() - 4)) - 1000;
    EXPECT_EQ(to_line(record), to_line(make_record(n)));
  }
}

std::string refusal(const fs::path& path) {
  try {
    check_store_path(path);
  } catch (const StorePathError& error) {
    EXPECT_THROW(StoreWriter{path}, StorePathError);
    return error.what();
  }
  ADD_FAILURE() << path << " was accepted";
  return "";
}

// Runs something in a process of its own, without root's right to write everywhere. True if it returned true.
bool as_ordinary_user(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    try {
      ::_exit(body() ? 0 : 1);
    } catch (const std::exception& error) {  // must not get back into the test
      ADD_FAILURE() << error.what();
      ::_exit(1);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Store, WritesAndReads) {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "deep" / "er" / "störe 1";
  append_all(store, 0, 5);
  append_all(store, 5, 8);
  const StoreContents contents = read_store(store);
  EXPECT_EQ(contents.records.size(), 8U);
  expect_genuine(contents);
  EXPECT_EQ(contents.bad_lines + contents.torn_tails + contents.duplicates, 0U);
  EXPECT_TRUE(contents.warnings.empty());
  EXPECT_TRUE(fs::exists(store / "store.json"));
  EXPECT_FALSE(fs::exists(store / "quarantine"));
}

TEST(Store, OpeningAloneMakesNoShard) {
  const TemporaryFolder folder;
  { const StoreWriter writer(folder.path() / "s"); }
  EXPECT_TRUE(list_shards(folder.path() / "s").empty());
  EXPECT_TRUE(read_store(folder.path() / "s").records.empty());
}

TEST(Store, CheckTouchesNothing) {
  const TemporaryFolder folder;
  check_store_path(folder.path() / "a" / "b");
  check_store_path(folder.path());  // empty: may become one
  check_store_path(folder.path() / "with slash" / "");
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Store, RefusedPathsSayWhy) {
  const TemporaryFolder folder;
  spill(folder.path() / "file", "text");
  EXPECT_NE(refusal(folder.path() / "file").find("a file of this name exists"), std::string::npos);
  const std::string below = refusal(folder.path() / "file" / "x" / "y");
  EXPECT_NE(below.find((folder.path() / "file").string() + "' is a file"), std::string::npos) << below;
  const std::string foreign = refusal(folder.path());
  EXPECT_NE(foreign.find("(file) and has no store.json"), std::string::npos) << foreign;
  fs::create_symlink("nowhere", folder.path() / "link");
  EXPECT_NE(refusal(folder.path() / "link").find("leads nowhere"), std::string::npos);
  EXPECT_NE(refusal("").find("empty"), std::string::npos);
  EXPECT_NE(refusal(folder.path() / std::string(300, 'n')).find("too long"), std::string::npos);
  spill(folder.path() / "newer" / "store.json", "{\"format\":2}");
  EXPECT_NE(refusal(folder.path() / "newer").find("format 2"), std::string::npos);
  EXPECT_THROW(read_store(folder.path() / "newer"), StorePathError);
  EXPECT_THROW(read_store(folder.path() / "file"), StorePathError);
  EXPECT_THROW(read_store(folder.path() / "missing"), StorePathError);
  EXPECT_THROW(read_store(folder.path()), StorePathError);
  EXPECT_FALSE(fs::exists(folder.path() / "missing"));
}

TEST(Store, FolderWithoutPermissionIsRefused) {
  const TemporaryFolder folder;
  const fs::path closed = folder.path() / "closed";
  fs::create_directory(closed);
  append_all(folder.path() / "store", 0, 2);
  for (const fs::path& path : {closed, folder.path() / "store", folder.path() / "store" / "shards"}) {
    fs::permissions(path, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  }
  fs::permissions(folder.path(), fs::perms::others_exec, fs::perm_options::add);
  EXPECT_TRUE(as_ordinary_user([&] {
    for (const fs::path& path : {closed, closed / "new", folder.path() / "store"}) {
      const std::string why = refusal(path);
      EXPECT_NE(why.find("cannot be written to: Permission denied"), std::string::npos) << why;
    }
    // Reading needs no right to write.
    EXPECT_EQ(read_store(folder.path() / "store").records.size(), 2U);
    return !::testing::Test::HasFailure();
  }));
  fs::permissions(folder.path() / "store" / "shards", fs::perms::owner_all);
  fs::permissions(folder.path() / "store", fs::perms::owner_all);
}

TEST(Store, InterruptedMakingIsTakenUp) {
  const TemporaryFolder folder;
  spill(folder.path() / ".store.json.host-1-0.tmp", "{\"for");
  append_all(folder.path(), 0, 1);
  EXPECT_EQ(read_store(folder.path()).records.size(), 1U);
}

TEST(Store, DamagedMarkIsTold) {
  const std::string deep(500000, '[');
  for (const std::string& text : {std::string(), std::string("{\"form"), std::string("[]"),
                                  std::string("\xFF\xFE"), deep, "{\"format\":" + deep}) {
    const TemporaryFolder folder;
    append_all(folder.path() / "s", 0, 2);
    spill(folder.path() / "s" / "store.json", text);
    const StoreContents contents = read_store(folder.path() / "s");
    EXPECT_EQ(contents.records.size(), 2U);
    EXPECT_EQ(contents.warnings.size(), 1U);
    append_all(folder.path() / "s", 2, 3);
    EXPECT_TRUE(read_store(folder.path() / "s").warnings.empty());
  }
}

// Pipes, devices and folders among the shards are told and left alone; nobody waits for them.
TEST(Store, OnlyRegularFilesAreRead) {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s", shards = store / "shards";
  append_all(store, 0, 2);
  ASSERT_EQ(::mkfifo((shards / "pipe.jsonl").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", shards / "device.jsonl");
  fs::create_directory(shards / "folder.jsonl");
  const StoreContents contents = read_store(store);
  EXPECT_EQ(contents.records.size(), 2U);
  ASSERT_EQ(contents.warnings.size(), 3U);
  for (const std::string& warning : contents.warnings) {
    EXPECT_NE(warning.find("no regular file"), std::string::npos) << warning;
  }
  append_all(store, 2, 3);
  EXPECT_EQ(read_store(store).records.size(), 3U);
  fs::remove(store / "store.json");
  ASSERT_EQ(::mkfifo((store / "store.json").c_str(), 0600), 0);
  EXPECT_THROW(read_store(store), StoreError);
  EXPECT_THROW(StoreWriter{store}, StoreError);
}

TEST(Store, FinishedBeatsFailedAndLaterBeatsEarlier) {
  const TemporaryFolder folder;
  Record failed = make_record(0);
  failed.status = RunStatus::failed;
  failed.message = "out of memory";
  Record failed_again = failed;
  failed_again.message = "device lost";
  Record diverged = make_record(0);
  diverged.status = RunStatus::diverged;
  StoreWriter writer(folder.path() / "s");
  const auto now = [&] { return read_store(folder.path() / "s"); };
  writer.append(failed);
  writer.append(failed_again);
  EXPECT_EQ(now().records.begin()->second.message, "device lost");
  writer.append(diverged);
  writer.append(failed);
  EXPECT_EQ(now().records.begin()->second.status, RunStatus::diverged);
  EXPECT_EQ(now().duplicates, 3U);
  EXPECT_TRUE(now().conflicts.empty());
  writer.append(make_record(0));  // done, where it was diverged: determinism is broken
  EXPECT_EQ(now().conflicts, std::vector<std::string>{failed.id});
  EXPECT_EQ(now().warnings.size(), 1U);
}

TEST(Store, EqualResultsAreNoConflict) {
  const TemporaryFolder folder;
  Record elsewhere = make_record(1);
  elsewhere.provenance = {{"host", "another"}};
  append_all(folder.path() / "s", 1, 2);
  StoreWriter(folder.path() / "s").append(elsewhere);
  const StoreContents contents = read_store(folder.path() / "s");
  EXPECT_EQ(contents.duplicates, 1U);
  EXPECT_TRUE(contents.conflicts.empty());
}

TEST(Store, ThreadsAndProcessesWriteAtOnce) {
  const TemporaryStore store;
  std::vector<pid_t> children;
  for (int process = 0; process < 3; ++process) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    bool good = true;
    try {
      StoreWriter writer(store);
      std::vector<std::thread> threads;
      for (int t = 0; t < 2; ++t) {
        threads.emplace_back([&writer, first = process * 60 + t * 30] {
          for (int n = first; n < first + 30; ++n) writer.append(make_record(n));
        });
      }
      for (std::thread& thread : threads) thread.join();
    } catch (const std::exception&) {
      good = false;
    }
    ::_exit(good ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const StoreContents contents = read_store(store);
  EXPECT_EQ(contents.records.size(), 180U);
  EXPECT_EQ(contents.duplicates, 0U);
  EXPECT_TRUE(contents.warnings.empty());
  expect_genuine(contents);
  EXPECT_EQ(list_shards(store).size(), 3U);
}

// Without the second look at store.json about one process in a hundred is refused here.
TEST(Store, ProcessesThatMakeItAtOnceAllSucceed) {
  const TemporaryFolder folder;
  constexpr int processes = 8, rounds = 120;
  for (int round = 0; round < rounds; ++round) {
    const fs::path store = folder.path() / std::to_string(round);
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    std::vector<pid_t> children;
    for (int process = 0; process < processes; ++process) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      char byte = 0;
      ::close(ready[1]);
      (void)!::read(ready[0], &byte, 1);  // all start when the parent closes its end
      try {
        check_store_path(store);
        StoreWriter writer(store);
        writer.keep_study("study", "text");
        ::_exit(0);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ::_exit(1);
      }
    }
    ::close(ready[0]);
    ::close(ready[1]);
    for (const pid_t child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      EXPECT_EQ(status, 0) << "round " << round;
    }
  }
}

TEST(Store, TornTailOfLiveWriterIsLeftAlone) {
  const TemporaryStore store;
  auto live = std::make_unique<StoreWriter>(store);
  live->append(make_record(0));
  const fs::path shard = list_shards(store).front();
  const std::string whole = slurp(shard);
  const std::string torn = whole + "{\"v\":1,\"id\":\"ct-";
  std::ofstream(shard, std::ios::app) << torn.substr(whole.size());
  { const StoreWriter other(store); }
  EXPECT_EQ(slurp(shard), torn);
  EXPECT_EQ(read_store(store).torn_tails, 1U);
  live.reset();
  const StoreWriter other(store);
  EXPECT_EQ(slurp(shard), whole);
  ASSERT_EQ(other.notes().size(), 1U);
  EXPECT_NE(other.notes()[0].find("cut the torn last line (16 bytes)"), std::string::npos)
      << other.notes()[0];
}

// Reads a store of three records whose shard was changed; opens it for writing, which repairs it; reads
// again.
void check_damaged(const fs::path& store, const std::string& damaged, std::size_t least,
                   const std::string& what, bool repair = true) {
  fs::remove_all(store / "quarantine");
  for (const fs::path& shard : list_shards(store)) fs::remove(shard);
  const fs::path shard = store / "shards" / "host-1-0.jsonl";
  spill(shard, damaged);
  const StoreContents contents = read_store(store);
  EXPECT_EQ(slurp(shard), damaged) << what;  // reading changes nothing
  EXPECT_GE(contents.records.size(), least) << what;
  expect_genuine(contents);
  // A shard cut between two lines looks whole; everything else that is missing is told.
  const bool cut_between_lines = damaged.empty() || is_intact(damaged.substr(0, damaged.find('\n')));
  if (contents.records.size() < 3 && !cut_between_lines) {
    EXPECT_GE(contents.warnings.size(), 1U) << what;
  }

  if (!repair) return;
  { const StoreWriter repairs(store); }
  const StoreContents repaired = read_store(store);
  EXPECT_EQ(repaired.records.size(), contents.records.size()) << what;
  EXPECT_EQ(repaired.bad_lines + repaired.torn_tails + repaired.warnings.size(), 0U) << what;
  expect_genuine(repaired);
}

struct ThreeRecords {
  TemporaryFolder folder;
  fs::path store = folder.path() / "s";
  std::string text;
  ThreeRecords() {
    append_all(store, 0, 3);
    text = slurp(list_shards(store).front());
  }
};

TEST(StoreDamage, AnyByteFlipped) {
  const ThreeRecords made;
  for (std::size_t at = 0; at < made.text.size(); ++at) {
    std::string damaged = made.text;
    damaged[at] = static_cast<char>(damaged[at] ^ (at % 2 == 0 ? 0x01 : 0xFF));
    check_damaged(made.store, damaged, made.text[at] == '\n' ? 3 : 2, "flipped byte " + std::to_string(at),
                  at % 5 == 0);
  }
}

TEST(StoreDamage, NewlinePutAnywhere) {
  const ThreeRecords made;
  for (std::size_t at = 0; at < made.text.size(); at += 3) {
    std::string damaged = made.text;
    damaged[at] = '\n';
    check_damaged(made.store, damaged, 2, "newline at byte " + std::to_string(at));
  }
}

TEST(StoreDamage, CutAnywhere) {
  const ThreeRecords made;
  for (std::size_t size = 0; size <= made.text.size(); ++size) {
    const std::string cut = made.text.substr(0, size);
    // Whole lines, and the last one also without its newline.
    const auto whole = static_cast<std::size_t>(std::ranges::count(cut, '\n')) +
                       (size < made.text.size() && made.text[size] == '\n' ? 1 : 0);
    check_damaged(made.store, cut, whole, "cut at byte " + std::to_string(size), size % 3 == 0);
  }
}

TEST(StoreDamage, OtherAccidents) {
  const ThreeRecords made;
  const std::string& text = made.text;
  check_damaged(made.store, text + std::string(5000, '\0'), 3, "zeros behind, as after a power loss");
  check_damaged(made.store, text + std::string(5000, '\0') + "\n" + text, 3, "zeros within");
  check_damaged(made.store, text + text, 3, "a block twice");
  check_damaged(made.store, text.substr(0, text.size() / 2) + text, 3, "half a block glued to a whole one");
  std::string with_returns;
  for (const char c : text) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  check_damaged(made.store, with_returns, 3, "line ends of another system");
  check_damaged(made.store, "\xEF\xBB\xBF" + text, 2, "byte order mark");
  check_damaged(made.store, std::string(100000, '{'), 0, "braces");
  check_damaged(made.store, "\n\n" + text, 3, "empty lines");
}

TEST(StoreDamage, DamagedLineGoesToQuarantine) {
  const ThreeRecords made;
  const std::string second = made.text.substr(made.text.find('\n') + 1);
  std::string damaged = made.text;
  damaged[made.text.find('\n') + 200] ^= 0x04;
  spill(made.store / "shards" / "host-1-0.jsonl", damaged);
  fs::remove(list_shards(made.store).back() == made.store / "shards" / "host-1-0.jsonl"
                 ? list_shards(made.store).front()
                 : list_shards(made.store).back());
  const StoreContents contents = read_store(made.store);
  ASSERT_EQ(contents.warnings.size(), 1U);
  EXPECT_EQ(contents.warnings[0], "shard host-1-0.jsonl: line 2 left out: checksum does not match");
  EXPECT_EQ(contents.bad_lines, 1U);
  const StoreWriter writer(made.store);
  EXPECT_EQ(writer.notes().size(), 1U);
  std::vector<fs::path> kept;
  for (const auto& entry : fs::directory_iterator(made.store / "quarantine")) kept.push_back(entry.path());
  ASSERT_EQ(kept.size(), 1U);
  const std::size_t first_end = damaged.find('\n') + 1;
  EXPECT_EQ(slurp(kept[0]), "# line 2: checksum does not match\n" +
                                damaged.substr(first_end, damaged.find('\n', first_end) - first_end + 1));
}

TEST(StoreDamage, ManyBadLinesGiveFewWarnings) {
  const ThreeRecords made;
  std::string bad;
  for (int i = 0; i < 1000; ++i) bad += "nonsense\n";
  spill(made.store / "shards" / "x.jsonl", bad);
  const StoreContents contents = read_store(made.store);
  EXPECT_EQ(contents.bad_lines, 1000U);
  EXPECT_EQ(contents.records.size(), 3U);
  EXPECT_EQ(contents.warnings.size(), 11U);
}

TEST(Store, DeletedWhileRunningIsNoticed) {
  const TemporaryFolder folder;
  StoreWriter writer(folder.path() / "s");
  writer.append(make_record(0));
  fs::remove_all(folder.path() / "s");
  EXPECT_THROW(writer.append(make_record(1)), StoreError);
  EXPECT_THROW(writer.append(make_record(1)), StoreError);
}

TEST(Store, AShardThatGoesWhileItIsWrittenLosesOnlyWhatItHeld) {
  const TemporaryStore store;
  StoreWriter writer(store);
  writer.append(make_record(0));
  fs::remove(list_shards(store).at(0));
  writer.append(make_record(1));
  EXPECT_EQ(read_store(store).records.count(make_record(1).id), 1U);
  fs::resize_file(list_shards(store).at(0), 10);  // by somebody who takes its writer for dead
  writer.append(make_record(2));
  EXPECT_EQ(read_store(store).records.count(make_record(2).id), 1U);
  EXPECT_EQ(list_shards(store).size(), 2U);
}

// Repairing follows no link that somebody's store has in the place of a shard.
TEST(Store, ALinkIsReadAndNeverRepaired) {
  const TemporaryFolder folder;
  const fs::path store = folder.path() / "s", mine = folder.path() / "mine";
  append_all(store, 0, 2);
  spill(mine, "no line end");
  fs::create_symlink(mine, store / "shards" / "x-1-0.jsonl");
  const StoreWriter writer(store);
  EXPECT_EQ(slurp(mine), "no line end");
  ASSERT_EQ(writer.notes().size(), 1U);
  EXPECT_NE(writer.notes()[0].find("symbolic link"), std::string::npos) << writer.notes()[0];
  EXPECT_EQ(read_store(store).records.size(), 2U);
}

// Where locks say nothing, what looks torn may be the write in progress of a process whose heartbeat shows it.
TEST(Store, TornTailOfAWriterThatClaimsRunsIsLeftAlone) {
  struct Lockless : FileSystem {
    int flock(int, int) override { return 0; }
  } system;
  const TemporaryStore store;
  Claims claims(store, {});
  fs::create_directories(store);
  ASSERT_TRUE(claims.take("ct-a"));
  const std::string half = to_line(make_record(7)).substr(0, 90);
  spill(store / "store.json", "{\"format\":1}");
  const fs::path shard = store / "shards" / (process_name() + "-7.jsonl");
  spill(shard, half);
  { const StoreWriter writer(store, system); }
  EXPECT_EQ(slurp(shard), half);
  claims.release("ct-a");
  const fs::path dead = store / "shards" / "gone-1-0.jsonl";
  spill(dead, half);
  { const StoreWriter writer(store, system); }
  EXPECT_EQ(slurp(dead), "");
}

// Nothing is lost, nothing is made in the old place, and it is told.
TEST(Store, MovedWhileRunningIsNoticed) {
  const TemporaryFolder folder;
  const fs::path old = folder.path() / "s", now = folder.path() / "t";
  StoreWriter writer(old);
  writer.append(make_record(0));
  EXPECT_TRUE(writer.is_in_place());
  fs::rename(old, now);
  EXPECT_FALSE(writer.is_in_place());
  EXPECT_THROW(writer.append(make_record(1)), StoreError);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(read_store(now).records.size(), 2U);
  append_all(old, 5, 6);  // another store in its place
  EXPECT_FALSE(writer.is_in_place());
}

TEST(Store, KeepsTheStudyVerbatim) {
  const TemporaryFolder folder;
  StoreWriter writer(folder.path() / "s");
  writer.keep_study("capacity", "[study]\r\nname = \"ä\"");
  writer.keep_study("capacity", "[study]\r\nname = \"ä\"");
  EXPECT_EQ(slurp(folder.path() / "s" / "studies" / "capacity.toml"), "[study]\r\nname = \"ä\"");
  writer.keep_study("capacity", "changed");
  EXPECT_EQ(slurp(folder.path() / "s" / "studies" / "capacity.toml"), "changed");
  EXPECT_THROW(writer.keep_study("../x", ""), StoreError);
  EXPECT_THROW(writer.keep_study("", ""), StoreError);
}

/// The record's line with one of its fields changed, and a good checksum.
std::string altered(const Record& record, const std::string& from, const std::string& to) {
  std::string object = testing::unsealed(to_line(record));
  const std::size_t at = object.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return seal(object.replace(at, from.size(), to)) + "\n";
}

// Commands that read heads (run, status, export) and those that read records (plot) must agree on what is there.
TEST(Store, ARecordOfWrongTypesCountsAsNone) {
  const Record record = make_record(1);
  const std::string steps = "\"steps\":" + std::to_string(record.steps) + ",";
  const std::pair<std::string, std::string> changes[] = {{steps, "\"steps\":1e30,"},
                                                         {steps, "\"steps\":\"many\","},
                                                         {steps, ""},
                                                         {"\"metrics\":{", "\"metrics\":{\"odd\":[],"},
                                                         {"\"curves\":{", "\"curves\":{\"odd\":7,"},
                                                         {"\"config\":{", "\"config\":{\"odd\":,"},
                                                         {"\"message\":\"", "\"message\":0,\"more\":\""}};
  for (const auto& [from, to] : changes) {
    const TemporaryStore store;
    append_all(store, 0, 1);
    const fs::path bad = store / "shards" / "zzz-1-0.jsonl";  // read last
    spill(bad, altered(record, from, to));
    EXPECT_EQ(read_heads(store).contents.records.size(), 1U) << to;  // so that it is trained again
    EXPECT_EQ(read_heads(store).contents.bad_lines, 1U) << to;
    EXPECT_EQ(read_store(store).records.size(), 1U) << to;
    EXPECT_EQ(read_heads(store).contents.warnings, read_store(store).warnings);

    append_all(store, 1, 2);  // a good one, read before the bad one
    const StoreHeads heads = read_heads(store);
    ASSERT_EQ(heads.contents.records.size(), 2U) << to;
    RecordReader reader(heads);
    EXPECT_EQ(to_line(reader.record(record.id)), to_line(record)) << to;
    EXPECT_EQ(read_store(store).records.at(record.id).steps, record.steps);
    StoreFollower follower(store, {});
    EXPECT_EQ(follower.added().size(), 2U) << to;
  }
}

}  // namespace
}  // namespace crosstalk
