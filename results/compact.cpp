// One shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#include "results/compact.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <set>
#include <vector>

#include "results/files.h"
#include "results/shard.h"
#include "results/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// A file that takes its name only when it is whole and durable.
class NewShard {
 public:
  explicit NewShard(const fs::path& folder)
      : folder_(folder),
        temporary_(folder / fmt::format(".compact-{}.tmp", process_name())),
        file_(open_file(FileSystem::real(), temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {
    if (!file_.is_open()) fail(errno);
  }
  ~NewShard() { FileSystem::real().unlink(temporary_.string()); }
  NewShard(const NewShard&) = delete;
  NewShard& operator=(const NewShard&) = delete;

  void add(const std::string& line) {
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() > (std::size_t{1} << 20)) flush();
  }
  void put_in_place() {
    flush();
    if (FileSystem::real().fsync(file_.number()) < 0) fail(errno);
    for (int n = 0;; ++n) {
      const fs::path path = folder_ / fmt::format("compact-{}-{}.jsonl", process_name(), n);
      // Unlike a rename, a link never replaces what is there.
      std::error_code error;
      fs::create_hard_link(temporary_, path, error);
      if (error == std::errc::file_exists) continue;
      if (error && FileSystem::real().rename(temporary_.string(), path.string()) < 0) fail(errno);
      sync_folder(FileSystem::real(), folder_);
      return;
    }
  }

 private:
  void flush() {
    if (const int error_number = write_all(FileSystem::real(), file_, buffer_); error_number != 0)
      fail(error_number);
    buffer_.clear();
  }
  [[noreturn]] void fail(int error_number) const {
    throw StoreError(fmt::format("{}: cannot be written: {}. The store is as it was", temporary_.string(),
                                 reason_of(error_number)));
  }

  fs::path folder_, temporary_;
  File file_;
  std::string buffer_;
};

}  // namespace

Compacted compact_store(const fs::path& store) {
  // A writer repairs what is torn or damaged, and moves it to quarantine, before anything is merged.
  { const StoreWriter repairs(store); }
  Compacted done;
  const fs::path folder = fs::absolute(store) / "shards";
  // Locked, a shard has no writer, and no other process compacts it.
  std::vector<File> locks;
  std::set<fs::path> ours;
  for (const fs::path& shard : list_shards(fs::absolute(store))) {
    File file = open_file(FileSystem::real(), shard, O_RDONLY | O_NONBLOCK);
    if (!file.is_open()) continue;
    if (FileSystem::real().flock(file.number(), LOCK_EX | LOCK_NB) < 0) {
      ++done.busy;
      continue;
    }
    locks.push_back(std::move(file));
    ours.insert(shard);
  }
  const StoreHeads heads = read_heads(fs::absolute(store));
  if (heads.contents.bad_lines + heads.contents.torn_tails > 0)
    throw StoreError(fmt::format("{}: has damaged lines that could not be moved to quarantine: {}",
                                 store.string(),
                                 heads.contents.warnings.empty() ? "" : heads.contents.warnings[0]));
  if (!heads.contents.conflicts.empty())
    throw StoreError(fmt::format("{}: run {} has two records that differ, and compacting would drop one",
                                 store.string(), heads.contents.conflicts[0]));
  std::vector<std::string> ids;  // whose record that counts lies in a shard of ours
  for (const auto& [id, place] : heads.places)
    if (ours.count(heads.shards.at(place.shard)) != 0) ids.push_back(id);
  done.shards = ours.size();
  done.records = ids.size();
  if (ours.size() < 2 && heads.contents.duplicates == 0) return done;
  std::size_t lines = 0;
  for (const fs::path& shard : ours)
    for_each_piece(FileSystem::real(), shard, [&](const ShardPiece&, std::int64_t) { ++lines; });
  done.dropped = lines - ids.size();
  if (!ids.empty()) {
    NewShard merged(folder);
    RecordReader reader(heads);
    for (const std::string& id : ids) merged.add(reader.line(id));
    merged.put_in_place();
  }
  for (const fs::path& shard : ours)
    if (FileSystem::real().unlink(shard.string()) < 0 && errno != ENOENT)
      throw StoreError(
          fmt::format("{}: cannot be removed: {}; the store holds the records twice, which does no "
                      "harm",
                      shard.string(), reason_of(errno)));
  sync_folder(FileSystem::real(), folder);
  return done;
}

}  // namespace crosstalk
