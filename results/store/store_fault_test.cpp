// The store under faults: every system call fails once, the disk fills, the process is killed. Whatever
// happens: no committed record is lost, none is invented, and doing the same again completes the store.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "results/store/file_system.h"
#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"
#include "results/test_records.h"
#include "results/test_refusal.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;
using testing::make_record;
using testing::refusal_of;
using testing::slurp;
using testing::spill;
using testing::TemporaryFolder;
using testing::TemporaryStore;

enum class Fault {
  once,       // the n-th call fails
  from_then,  // the n-th call and all later ones fail: a dead disk, or a process that is gone
  half        // as `from_then`, but a write that fails first writes half of its bytes: a full disk
};

class FaultySystem : public FileSystem {
 public:
  FaultySystem(Fault fault, int error_number, int n) : fault_(fault), error_(error_number), left_(n) {}
  bool fired() const { return fired_; }

  int open(const std::string& path, int flags, mode_t mode) override {
    return fails() ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t read(int file, char* bytes, std::size_t size) override {
    return fails() ? -1 : FileSystem::read(file, bytes, size);
  }
  ssize_t write(int file, const char* bytes, std::size_t size) override {
    const bool fired_before = fired_;
    if (!fails()) return FileSystem::write(file, bytes, size);
    if (fault_ == Fault::half && !fired_before && size > 1) return FileSystem::write(file, bytes, size / 2);
    return -1;
  }
  int fdatasync(int file) override { return fails() ? -1 : FileSystem::fdatasync(file); }
  int fsync(int file) override { return fails() ? -1 : FileSystem::fsync(file); }
  int ftruncate(int file, off_t size) override {
    // A full disk can still be truncated.
    return fault_ != Fault::half && fails() ? -1 : FileSystem::ftruncate(file, size);
  }
  int flock(int file, int operation) override { return fails() ? -1 : FileSystem::flock(file, operation); }
  int rename(const std::string& from, const std::string& to) override {
    return fails() ? -1 : FileSystem::rename(from, to);
  }
  int unlink(const std::string& path) override { return fails() ? -1 : FileSystem::unlink(path); }
  int mkdir(const std::string& path, mode_t mode) override {
    return fails() ? -1 : FileSystem::mkdir(path, mode);
  }

 private:
  bool fails() {
    const bool now = left_ > 0 ? --left_ == 0 : fault_ != Fault::once;
    if (now) {
      fired_ = true;
      errno = error_;
    }
    return now;
  }

  Fault fault_;
  int error_;
  int left_;
  bool fired_ = false;
};

constexpr int first_records = 3;  // in the store before the faults
constexpr int all_records = 7;

// A store whose one shard has a damaged line and a torn tail, so that opening repairs it.
void make_store(const fs::path& store) {
  std::string text;
  for (int n = 0; n < first_records; ++n) text += to_line(make_record(n)) + "\n";
  std::string damaged = to_line(make_record(5));
  damaged[40] ^= 1;
  spill(store / "store.json", "{\"format\":1}");
  spill(store / "shards" / "gone-1-0.jsonl", damaged + "\n" + text + to_line(make_record(6)).substr(0, 90));
}

// Appends what is not there; returns the numbers that append() said are on disk.
std::set<int> work(const fs::path& store, FileSystem& system) {
  std::set<int> committed;
  try {
    StoreWriter writer(store, system);
    for (int n = first_records; n < all_records; ++n) {
      try {
        writer.append(make_record(n));
        committed.insert(n);
      } catch (const StoreError&) {
      }
    }
    writer.keep_study("study", "text");
  } catch (const StoreError&) {
  }
  return committed;
}

void check(const fs::path& store, const std::set<int>& committed, const std::string& what) {
  const StoreContents contents = read_store(store);
  std::set<int> found;
  for (const auto& [id, record] : contents.records) {
    const int n = std::stoi(id.substr(id.size() - 4)) - 1000;
    found.insert(n);
    EXPECT_EQ(to_line(record), to_line(make_record(n))) << what;
  }
  for (const int n : committed) EXPECT_TRUE(found.count(n) != 0) << what << ": record " << n << " is lost";
}

void fail_every_call(Fault fault, int error_number) {
  for (int n = 1;; ++n) {
    const std::string what = fmt::format("call {} fails with {}", n, error_number);
    const TemporaryFolder folder;
    const fs::path store = folder.path() / "s";
    make_store(store);
    FaultySystem system(fault, error_number, n);
    std::set<int> committed = work(store, system);
    for (int old = 0; old < first_records; ++old) committed.insert(old);
    check(store, committed, what);
    // The same again, now without faults, completes it and leaves it clean.
    const std::set<int> rest = work(store, FileSystem::real());
    EXPECT_EQ(rest.size(), std::size_t{all_records - first_records}) << what;
    const StoreContents contents = read_store(store);
    EXPECT_EQ(contents.records.size(), std::size_t{all_records}) << what;
    EXPECT_EQ(contents.bad_lines + contents.torn_tails + contents.conflicts.size(), 0U) << what;
    EXPECT_EQ(slurp(store / "studies" / "study.toml"), "text") << what;
    if (::testing::Test::HasFailure()) return;
    if (!system.fired()) {
      EXPECT_GT(n, 30) << "fewer calls than thought";
      return;
    }
  }
}

TEST(StoreFault, EveryCallFailsOnce) { fail_every_call(Fault::once, EIO); }
TEST(StoreFault, EveryCallFindsTheDiskFullOnce) { fail_every_call(Fault::once, ENOSPC); }
TEST(StoreFault, EveryCallIsTheLast) { fail_every_call(Fault::from_then, EIO); }
TEST(StoreFault, DiskFullFromEveryCallOn) { fail_every_call(Fault::half, ENOSPC); }

// A new store as well: nothing there yet, so that making it fails at every step.
TEST(StoreFault, MakingFailsAtEveryCall) {
  for (const Fault fault : {Fault::once, Fault::from_then, Fault::half}) {
    for (int n = 1;; ++n) {
      const TemporaryStore store;
      FaultySystem system(fault, ENOSPC, n);
      const std::set<int> committed = work(store, system);
      if (!committed.empty()) check(store, committed, fmt::format("call {}", n));
      EXPECT_EQ(work(store, FileSystem::real()).size(), std::size_t{all_records - first_records});
      check(store, {3, 4, 5, 6}, fmt::format("call {}, completed", n));
      if (::testing::Test::HasFailure() || !system.fired()) break;
    }
  }
}

TEST(StoreFault, InterruptedCallsAreRetried) {
  for (int n = 1;; ++n) {
    const TemporaryStore store;
    make_store(store);
    FaultySystem system(Fault::once, EINTR, n);
    EXPECT_EQ(work(store, system), (std::set<int>{3, 4, 5, 6})) << "call " << n;
    EXPECT_EQ(read_store(store).records.size(), std::size_t{all_records}) << "call " << n;
    EXPECT_TRUE(fs::exists(store / "studies" / "study.toml")) << "call " << n;
    if (::testing::Test::HasFailure() || !system.fired()) break;
  }
}

TEST(StoreFault, FullDiskIsSaidAndTakenBack) {
  const TemporaryStore store;
  // Fails in the write of the second record, and in nothing before.
  class FullDisk : public FileSystem {
   public:
    bool full = false;
    ssize_t write(int file, const char* bytes, std::size_t size) override {
      if (!full) return FileSystem::write(file, bytes, size);
      if (size > 100) return FileSystem::write(file, bytes, 100);  // a short write sets no errno
      errno = ENOSPC;
      return -1;
    }
  } system;
  StoreWriter writer(store, system);
  writer.append(make_record(0));
  const std::string before = slurp(list_shards(store).front());
  system.full = true;
  const std::string error = refusal_of<StoreError>([&] { writer.append(make_record(1)); });
  EXPECT_NE(error.find("No space left on device (the disk is full)"), std::string::npos);
  EXPECT_NE(error.find(make_record(1).id), std::string::npos);
  EXPECT_EQ(slurp(list_shards(store).front()), before);
  system.full = false;  // space was made
  writer.append(make_record(1));
  EXPECT_EQ(list_shards(store).size(), 1U);
  EXPECT_EQ(read_store(store).records.size(), 2U);
  EXPECT_TRUE(read_store(store).warnings.empty());
}

}  // namespace
}  // namespace crosstalk
