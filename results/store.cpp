// The store: append-only JSONL shards, one writer a file. SPDX-License-Identifier: Apache-2.0
#include "results/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <set>
#include <utility>

#include "results/files.h"
#include "results/record_io.h"
#include "results/shard.h"
#include "results/store_path.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

// A shard that was overwritten as a whole must not flood the terminal.
constexpr std::size_t warnings_per_shard = 10;

class Reader {
 public:
  explicit Reader(FileSystem& system) : system_(system) {}

  void read_shard(const fs::path& path) {
    const std::string name = path.filename().string();
    std::string bytes;
    try {
      bytes = read_file(system_, path);
    } catch (const StoreError& error) {
      contents_.warnings.emplace_back(fmt::format("shard {}: left out: {}", name, error.what()));
      return;
    }
    std::vector<std::string> problems;
    for (const ShardPiece& piece : split_shard(bytes).pieces) {
      if (piece.kind == ShardPiece::Kind::torn) {
        ++contents_.torn_tails;
        problems.push_back(
            fmt::format("shard {}: line {} left out: it has no end (a write cut short, or still "
                        "in progress)",
                        name, piece.line));
        continue;
      }
      ParsedLine parsed = from_line(piece.text);
      if (parsed.record) {
        take(std::move(*parsed.record));
      } else {
        ++contents_.bad_lines;
        problems.push_back(fmt::format("shard {}: line {} left out: {}", name, piece.line, parsed.problem));
      }
    }
    const std::size_t shown = std::min(problems.size(), warnings_per_shard);
    std::move(problems.begin(), problems.begin() + static_cast<std::ptrdiff_t>(shown),
              std::back_inserter(contents_.warnings));
    if (shown < problems.size()) {
      contents_.warnings.push_back(
          fmt::format("shard {}: {} more lines left out", name, problems.size() - shown));
    }
  }

  void warn(std::string text) { contents_.warnings.push_back(std::move(text)); }

  StoreContents finish() {
    for (const std::string& id : conflicts_) {
      contents_.conflicts.push_back(id);
      contents_.warnings.push_back(fmt::format(
          "run {}: two records of it differ in their results, which equal runs never do on one machine", id));
    }
    return std::move(contents_);
  }

 private:
  void take(Record record) {
    const auto [at, added] = contents_.records.try_emplace(record.id);
    if (!added) {
      ++contents_.duplicates;
      const bool was_finished = at->second.status != RunStatus::failed;
      const bool is_finished = record.status != RunStatus::failed;
      if (was_finished && !is_finished) return;
      // Failures may well differ: a full disk, a lost device.
      if (was_finished && is_finished && !same_result(at->second, record)) conflicts_.insert(record.id);
    }
    at->second = std::move(record);
  }

  FileSystem& system_;
  StoreContents contents_;
  std::set<std::string> conflicts_;
};

}  // namespace

StoreContents read_store(const fs::path& path) { return read_store(path, FileSystem::real()); }

StoreContents read_store(const fs::path& path, FileSystem& system) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw StorePathError(
        fmt::format("'{}' is not a store: {}", path.string(), error ? error.message() : "it does not exist"));
  }
  if (!fs::is_directory(status)) {
    throw StorePathError(
        fmt::format("'{}' is not a store: it is a file; a store is a folder", path.string()));
  }
  Reader reader(system);
  const fs::path shards = path / "shards";
  if (fs::exists(shards, error) && !fs::is_directory(shards, error)) {
    throw StorePathError(
        fmt::format("'{}' is not a store: '{}' is not a folder", path.string(), shards.string()));
  }
  switch (read_mark(system, path)) {
    case StoreMark::missing:
      throw StorePathError(fmt::format("'{}' is not a store: it has no store.json", path.string()));
    case StoreMark::damaged:
      reader.warn(
          fmt::format("{}: damaged; reading the shards all the same", (path / "store.json").string()));
      break;
    case StoreMark::good:
      break;
  }
  for (const fs::path& shard : list_shards(path)) reader.read_shard(shard);
  return reader.finish();
}

struct StoreWriter::Impl {
  Impl(FileSystem& system_, fs::path root_) : system(system_), root(std::move(root_)), file(system_, -1) {}

  // A new shard, whose name no other process and no earlier writer of this one has.
  void open_shard() {
    const fs::path folder = root / "shards";
    for (int n = 0;; ++n) {
      shard = folder / fmt::format("{}-{}.jsonl", process_name(), n);
      File made = open_file(system, shard, O_WRONLY | O_APPEND | O_CREAT | O_EXCL);
      if (!made.is_open()) {
        if (errno == EEXIST) continue;
        throw StoreError(fmt::format("{}: a shard cannot be created: {}", shard.string(), reason_of(errno)));
      }
      // Tells others that the writer lives. Where locks do not work, they see that too, and leave it alone.
      if (system.flock(made.number(), LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) continue;
      sync_folder(system, folder);
      file = std::move(made);
      end = 0;
      return;
    }
  }

  // Takes a half-written line back. If even that fails, the shard is given up: what follows goes to a new
  // one.
  void take_back() {
    if (system.ftruncate(file.number(), end) < 0) file.close();
  }

  void append(const Record& record) {
    const std::string line = to_line(record) + "\n";
    const std::lock_guard guard(mutex);
    if (!file.is_open()) open_shard();
    if (const int error_number = write_all(system, file, line); error_number != 0) {
      take_back();
      fail(record, error_number);
    }
    int result = system.fdatasync(file.number());
    while (result < 0 && errno == EINTR) result = system.fdatasync(file.number());
    if (result < 0) {
      const int error_number = errno;
      // What the disk holds is unknown now, and a second fdatasync would not tell.
      take_back();
      file.close();
      fail(record, error_number);
    }
    struct stat now {};
    if (::fstat(file.number(), &now) == 0 && now.st_nlink == 0) {
      file.close();
      throw StoreError(fmt::format("{}: the shard was deleted while it was written; the record of {} is lost",
                                   shard.string(), record.id));
    }
    end += static_cast<off_t>(line.size());
    if (!is_in_place()) {
      throw StoreError(
          fmt::format("{}: the store was moved or deleted while records were written to it; those of "
                      "this process, up to {}, lie where it is now",
                      root.string(), record.id));
    }
  }

  bool is_in_place() const {
    struct stat now {};
    return ::stat((root / "shards").c_str(), &now) == 0 && now.st_dev == device && now.st_ino == inode;
  }

  [[noreturn]] void fail(const Record& record, int error_number) const {
    throw StoreError(
        fmt::format("{}: the record of {} cannot be written: {}. The store is sound; the same command "
                    "goes on from here",
                    shard.string(), record.id, reason_of(error_number)));
  }

  FileSystem& system;
  fs::path root;
  std::mutex mutex;
  fs::path shard;
  File file;
  off_t end = 0;
  dev_t device = 0;  ///< of the folder of the shards
  ino_t inode = 0;
  std::vector<std::string> notes;
};

StoreWriter::StoreWriter(const fs::path& path) : StoreWriter(path, FileSystem::real()) {}

StoreWriter::StoreWriter(const fs::path& path, FileSystem& system) {
  check_store_path(path);
  // Absolute, as the program may change its folder later.
  fs::path root = fs::absolute(path);
  if (!root.has_filename()) root = root.parent_path();
  impl_ = std::make_unique<Impl>(system, root);
  make_folders(system, root);
  if (read_mark(system, root) != StoreMark::good) write_whole(system, root / "store.json", mark_text());
  make_folders(system, root / "shards");
  struct stat shards {};
  if (::stat((root / "shards").c_str(), &shards) == 0) {
    impl_->device = shards.st_dev;
    impl_->inode = shards.st_ino;
  }
  for (const fs::path& shard : list_shards(root)) {
    // Readers cope with what is not repaired, so that a repair which fails is told but stops nobody.
    try {
      std::string note = repair_shard(system, shard, root / "quarantine");
      if (!note.empty()) impl_->notes.push_back(std::move(note));
    } catch (const StoreError& error) {
      impl_->notes.emplace_back(error.what());
    }
  }
}

StoreWriter::~StoreWriter() = default;

bool StoreWriter::is_in_place() const { return impl_->is_in_place(); }

void StoreWriter::append(const Record& record) { impl_->append(record); }

void StoreWriter::keep_study(const std::string& name, const std::string& toml_text) {
  if (name.empty() || name.find('/') != std::string::npos || name.front() == '.') {
    throw StoreError(fmt::format("the study's name '{}' cannot be a file's name", name));
  }
  const std::lock_guard guard(impl_->mutex);
  const fs::path folder = impl_->root / "studies";
  make_folders(impl_->system, folder);
  const fs::path path = folder / (name + ".toml");
  std::error_code ignored;
  if (fs::exists(path, ignored) && read_file(impl_->system, path) == toml_text) return;
  write_whole(impl_->system, path, toml_text);
}

const std::vector<std::string>& StoreWriter::notes() const { return impl_->notes; }

}  // namespace crosstalk
