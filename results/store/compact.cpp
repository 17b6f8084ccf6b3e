// One shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/compact.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "results/store/claims.h"
#include "results/store/files.h"
#include "results/store/leftovers.h"
#include "results/store/shard.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// A file that takes its name only when it is whole and durable.
class NewShard {
 public:
  NewShard(FileSystem& system, const fs::path& folder)
      : system_(system),
        folder_(folder),
        temporary_(folder / fmt::format(".compact-{}.tmp", process_name())),
        file_(open_file(system, temporary_, O_WRONLY | O_CREAT | O_TRUNC)) {
    if (!file_.is_open()) fail(errno);
  }
  ~NewShard() { system_.unlink(temporary_.string()); }
  NewShard(const NewShard&) = delete;
  NewShard& operator=(const NewShard&) = delete;

  void add(const std::string& line) {
    buffer_ += line;
    buffer_ += '\n';
    if (buffer_.size() > (std::size_t{1} << 20)) flush();
  }
  void put_in_place() {
    flush();
    if (system_.fsync(file_.number()) < 0) fail(errno);
    for (int n = 0;; ++n) {
      const fs::path path = folder_ / fmt::format("compact-{}-{}.jsonl", process_name(), n);
      // Unlike a rename, a link never replaces what is there.
      std::error_code error;
      fs::create_hard_link(temporary_, path, error);
      if (error == std::errc::file_exists) continue;
      if (error && system_.rename(temporary_.string(), path.string()) < 0) fail(errno);
      sync_folder(system_, folder_);
      return;
    }
  }

 private:
  void flush() {
    if (const int error_number = write_all(system_, file_, buffer_); error_number != 0) fail(error_number);
    buffer_.clear();
  }
  [[noreturn]] void fail(int error_number) const {
    throw StoreError(fmt::format("{}: cannot be written: {}. The store is as it was", temporary_.string(),
                                 reason_of(error_number)));
  }

  FileSystem& system_;
  fs::path folder_, temporary_;
  File file_;
  std::string buffer_;
};

/// A shard whose writer is gone, as far as locks, claims and heartbeats tell.
struct OldShard {
  fs::path path;
  File file;  ///< locked: it has no writer then, and no other process compacts it
  off_t size = 0;
};

std::vector<OldShard> old_shards(FileSystem& system, const fs::path& store, std::size_t& busy) {
  std::vector<OldShard> shards;
  LivingWriters living(store);
  for (const fs::path& path : list_shards(store)) {
    File file = open_file(system, path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (!file.is_open() || ::fstat(file.number(), &status) != 0) continue;
    if (living.writes(path) || system.flock(file.number(), LOCK_EX | LOCK_NB) < 0)
      ++busy;
    else
      shards.push_back({path, std::move(file), status.st_size});
  }
  return shards;
}

/// The records behind `begin`.
std::vector<std::string> lines_behind(FileSystem& system, const OldShard& shard) {
  if (::lseek(shard.file.number(), shard.size, SEEK_SET) < 0) return {};
  const std::string bytes = read_all(system, shard.file, shard.path);
  std::vector<std::string> lines;
  for (const ShardPiece& piece : split_shard(bytes).pieces)
    if (piece.kind == ShardPiece::Kind::intact) lines.emplace_back(piece.text);
  return lines;
}

/// Removes a shard that was merged, unless it has grown since: then a writer lives that nothing told of, and it stays.
/// What comes in the last moment is given to `late`; a writer whose shard is gone when its record is on disk writes it
/// again, to another. Until the end the shard has a name that readers know. False: it stays.
bool remove_merged(FileSystem& system, const OldShard& shard, std::size_t number,
                   std::vector<std::string>& late) {
  const fs::path folder = shard.path.parent_path(),
                 taken = folder / fmt::format("compact-{}-old-{}.jsonl", process_name(), number);
  if (system.rename(shard.path.string(), taken.string()) < 0) {
    if (errno == ENOENT) return true;  // another process merged it
    throw StoreError(
        fmt::format("{}: cannot be removed: {}; the store holds the records twice, which does no harm",
                    shard.path.string(), reason_of(errno)));
  }
  // Opened by its name: on a network file system that is what shows other machines' bytes.
  const File again = open_file(system, taken, O_RDONLY | O_NONBLOCK);
  struct stat status {};
  const bool known = again.is_open() && ::fstat(again.number(), &status) == 0;
  if (!known || status.st_size != shard.size) {
    system.rename(taken.string(), shard.path.string());
    return false;
  }
  if (system.unlink(taken.string()) < 0 && errno != ENOENT)
    throw StoreError(
        fmt::format("{}: cannot be removed: {}; the store holds the records twice, which does no harm",
                    taken.string(), reason_of(errno)));
  for (std::string& line : lines_behind(system, shard)) late.push_back(std::move(line));
  return true;
}

}  // namespace

Compacted compact_store(const fs::path& store) { return compact_store(store, FileSystem::real()); }

Compacted compact_store(const fs::path& store, FileSystem& system) {
  // A writer repairs what is torn or damaged, and moves it to quarantine, before anything is merged.
  { const StoreWriter repairs(store, system); }
  sweep_temporaries(store);
  Compacted done;
  const fs::path folder = fs::absolute(store) / "shards";
  const std::vector<OldShard> ours = old_shards(system, fs::absolute(store), done.busy);
  std::set<fs::path> paths;
  for (const OldShard& shard : ours) paths.insert(shard.path);
  const StoreHeads heads = read_heads(fs::absolute(store));
  std::size_t lines = 0, torn = 0;
  for (const fs::path& shard : paths)
    for_each_piece(system, shard, [&](const ShardPiece& piece, std::int64_t) {
      ++lines;
      if (piece.kind == ShardPiece::Kind::torn) ++torn;  // elsewhere: a write in progress
    });
  if (heads.contents.bad_lines + torn > 0)
    throw StoreError(fmt::format("{}: has damaged lines that could not be moved to quarantine: {}",
                                 store.string(),
                                 heads.contents.warnings.empty() ? "" : heads.contents.warnings[0]));
  if (!heads.contents.conflicts.empty())
    throw StoreError(fmt::format("{}: run {} has two records that differ, and compacting would drop one",
                                 store.string(), heads.contents.conflicts[0]));
  std::vector<std::string> ids;  // whose record that counts lies in a shard of ours
  for (const auto& [id, place] : heads.places)
    if (paths.count(heads.shards.at(place.shard)) != 0) ids.push_back(id);
  done.shards = ours.size();
  done.records = ids.size();
  if (ours.size() < 2 && heads.contents.duplicates == 0) return done;
  done.dropped = lines - ids.size();
  if (!ids.empty()) {
    NewShard merged(system, folder);
    RecordReader reader(heads);
    for (const std::string& id : ids) merged.add(reader.line(id));
    merged.put_in_place();
  }
  std::vector<std::string> late;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (remove_merged(system, ours[i], i, late)) continue;
    --done.shards;
    ++done.busy;
  }
  if (!late.empty()) {
    NewShard rest(system, folder);
    for (const std::string& line : late) rest.add(line);
    rest.put_in_place();
  }
  sync_folder(system, folder);
  return done;
}

}  // namespace crosstalk
