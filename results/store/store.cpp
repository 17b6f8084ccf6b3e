// The store: append-only JSONL shards, one writer a file.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "results/store/claims.h"
#include "results/store/files.h"
#include "results/store/record_io.h"
#include "results/store/record_scan.h"
#include "results/store/shard.h"
#include "results/store/store_path.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// Whoever deletes a store is done by then, and finds no new shard in a folder that is about to go.
constexpr std::chrono::milliseconds kDeletion(250);

// A shard that was overwritten as a whole must not flood the terminal.
constexpr std::size_t warnings_per_shard = 10;

class Reader {
 public:
  /// `heads`: what the records are reduced to and where they lie goes there; nullptr: whole records are kept.
  Reader(FileSystem& system, StoreHeads* heads) : system_(system), heads_(heads) {}

  /// False: it is gone, and was left out.
  bool read_shard(const fs::path& path) {
    const std::string name = path.filename().string();
    problems_.clear();
    if (heads_ != nullptr) heads_->shards.push_back(path);
    try {
      for_each_piece(system_, path,
                     [&](const ShardPiece& piece, std::int64_t begin) { read_piece(name, piece, begin); });
    } catch (const StoreError& error) {
      std::error_code ignored;
      if (fs::symlink_status(path, ignored).type() == fs::file_type::not_found) return false;
      contents_.warnings.emplace_back(fmt::format("shard {}: left out: {}", name, error.what()));
    }
    const std::size_t shown = std::min(problems_.size(), warnings_per_shard);
    std::move(problems_.begin(), problems_.begin() + static_cast<std::ptrdiff_t>(shown),
              std::back_inserter(contents_.warnings));
    if (shown < problems_.size()) {
      contents_.warnings.push_back(
          fmt::format("shard {}: {} more lines left out", name, problems_.size() - shown));
    }
    return true;
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
  void read_piece(const std::string& shard, const ShardPiece& piece, std::int64_t begin) {
    if (piece.kind == ShardPiece::Kind::torn) {
      ++contents_.torn_tails;
      problems_.push_back(
          fmt::format("shard {}: line {} left out: it has no end (a write cut short, or still in progress)",
                      shard, piece.line));
      return;
    }
    ParsedLine parsed;
    if (piece.kind != ShardPiece::Kind::intact)
      parsed.problem = "checksum does not match";
    else if (heads_ == nullptr || !(parsed.record = head_of(piece.text)))
      parsed = from_intact_line(piece.text);
    if (!parsed.record) {
      ++contents_.bad_lines;
      problems_.push_back(fmt::format("shard {}: line {} left out: {}", shard, piece.line, parsed.problem));
      return;
    }
    if (heads_ == nullptr) {
      take(std::move(*parsed.record),
           [](const Record& before, const Record& now) { return same_result(before, now); });
      return;
    }
    parsed.record->config.clear();
    const std::string id = parsed.record->id;
    const std::string_view provenance = provenance_of(piece.text);
    const RecordPlace place{heads_->shards.size() - 1, begin, piece.text.size(),
                            std::atoi(said_in(provenance, "\"semantics\":", 9).c_str())};
    const bool taken = take(std::move(*parsed.record), [&](const Record&, const Record&) {
      return same_as_before(heads_->places.at(id), piece.text);
    });
    if (!taken) return;
    heads_->places[id] = place;
    const std::string finished = said_in(provenance, "\"finished\":\"", 20);
    if (heads_->last.empty() || finished >= last_finished_) {
      last_finished_ = finished;
      heads_->last = id;
    }
  }

  /// The end of a record's line from its provenance on, which is the last of its objects: bytes are looked at once.
  static std::string_view provenance_of(std::string_view line) {
    for (std::size_t at = line.rfind('{'); at != 0 && at != std::string_view::npos;
         at = line.rfind('{', at - 1))
      if (line.substr(0, at).ends_with("\"provenance\":")) return line.substr(at);
    return {};
  }
  /// What follows `key`, at most so many bytes.
  static std::string said_in(std::string_view provenance, std::string_view key, std::size_t most) {
    const std::size_t at = provenance.find(key);
    return at == std::string_view::npos ? std::string()
                                        : std::string(provenance.substr(at + key.size(), most));
  }

  bool same_as_before(const RecordPlace& place, std::string_view line) {
    const File file = open_file(system_, heads_->shards.at(place.shard), O_RDONLY);
    std::string before(place.size, '\0');
    if (!file.is_open() || ::pread(file.number(), before.data(), before.size(), place.begin) !=
                               static_cast<ssize_t>(before.size()))
      return true;  // it is gone, so there is nothing that differs
    if (result_text(before) == result_text(line)) return true;
    const ParsedLine a = from_line(before), b = from_intact_line(line);
    return !a.record || !b.record || same_result(*a.record, *b.record);
  }

  /// Whether it stands for its run from now on.
  template <class Same>
  bool take(Record record, const Same& same) {
    const auto [at, added] = contents_.records.try_emplace(record.id);
    if (!added) {
      ++contents_.duplicates;
      const bool was_finished = at->second.status != RunStatus::failed;
      const bool is_finished = record.status != RunStatus::failed;
      if (was_finished && !is_finished) return false;
      // Failures may well differ: a full disk, a lost device.
      if (was_finished && is_finished && !same(at->second, record)) conflicts_.insert(record.id);
    }
    at->second = std::move(record);
    return true;
  }

  FileSystem& system_;
  StoreHeads* heads_;
  StoreContents contents_;
  std::set<std::string> conflicts_;
  std::vector<std::string> problems_;
  std::string last_finished_;
};

/// "; stores in it: runs/a, runs/b", for a folder of stores.
std::string stores_inside(const fs::path& folder) {
  constexpr std::size_t most = 5;
  std::vector<std::string> stores;
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error))
    if (std::error_code there; fs::exists(at->path() / "store.json", there))
      stores.push_back(at->path().string());
  if (stores.empty()) return "";
  std::ranges::sort(stores);
  const bool more = stores.size() > most;
  if (more) stores.resize(most);
  return fmt::format("; stores in it: {}{}", fmt::join(stores, ", "), more ? ", ..." : "");
}

StoreContents read_with(Reader& reader, const fs::path& path, FileSystem& system) {
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
  const fs::path shards = path / "shards";
  if (fs::exists(shards, error) && !fs::is_directory(shards, error)) {
    throw StorePathError(
        fmt::format("'{}' is not a store: '{}' is not a folder", path.string(), shards.string()));
  }
  switch (read_mark(system, path)) {
    case StoreMark::missing:
      throw StorePathError(
          fmt::format("'{}' is not a store: it has no store.json{}", path.string(), stores_inside(path)));
    case StoreMark::damaged:
      reader.warn(
          fmt::format("{}: damaged; reading the shards all the same", (path / "store.json").string()));
      break;
    case StoreMark::good:
      break;
  }
  std::set<fs::path> seen;
  for (bool merged = true; merged;) {  // what is gone since it was listed stands in a shard that is new
    merged = false;
    for (const fs::path& shard : list_shards(path))
      if (seen.insert(shard).second && !reader.read_shard(shard)) merged = true;
  }
  return reader.finish();
}

}  // namespace

StoreContents read_store(const fs::path& path) { return read_store(path, FileSystem::real()); }

StoreContents read_store(const fs::path& path, FileSystem& system) {
  Reader reader(system, nullptr);
  return read_with(reader, path, system);
}

StoreHeads read_heads(const fs::path& path) {
  StoreHeads heads;
  Reader reader(FileSystem::real(), &heads);
  heads.contents = read_with(reader, path, FileSystem::real());
  return heads;
}

struct RecordReader::Impl {
  explicit Impl(const StoreHeads& heads_) : heads(heads_) {}
  const StoreHeads& heads;
  std::map<std::size_t, File> files;
  std::string bytes;
};

RecordReader::RecordReader(const StoreHeads& heads) : impl_(std::make_unique<Impl>(heads)) {}
RecordReader::~RecordReader() = default;

const std::string& RecordReader::line(const std::string& id) {
  const RecordPlace& place = impl_->heads.places.at(id);
  const fs::path& path = impl_->heads.shards.at(place.shard);
  auto file = impl_->files.find(place.shard);
  if (file == impl_->files.end()) {
    constexpr std::size_t most_open = 64;
    if (impl_->files.size() >= most_open) impl_->files.clear();
    file = impl_->files.emplace(place.shard, open_file(FileSystem::real(), path, O_RDONLY)).first;
  }
  impl_->bytes.resize(place.size);
  if (!file->second.is_open() || ::pread(file->second.number(), impl_->bytes.data(), place.size,
                                         place.begin) != static_cast<ssize_t>(place.size))
    throw StoreError(fmt::format("{}: the record of {} is no longer there", path.string(), id));
  return impl_->bytes;
}

Record RecordReader::record(const std::string& id) {
  ParsedLine parsed = from_line(line(id));
  if (!parsed.record) throw StoreError(fmt::format("the record of {} has changed: {}", id, parsed.problem));
  return std::move(*parsed.record);
}

std::string_view RecordReader::written_line(const std::string& id) {
  const std::string& whole = line(id);
  if (!is_intact(whole)) throw StoreError(fmt::format("the record of {} has changed", id));
  return is_written_record(whole) ? std::string_view(whole) : std::string_view();
}

Record RecordReader::record_without_series(const std::string& id, bool provenance) {
  const std::string& whole = line(id);
  if (!is_intact(whole)) throw StoreError(fmt::format("the record of {} has changed", id));
  ParsedLine parsed = from_intact_line(without_series(whole, provenance));
  if (!parsed.record) throw StoreError(fmt::format("the record of {} is none: {}", id, parsed.problem));
  return std::move(*parsed.record);
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
    // Somebody who does not see that this process lives may merge the shard into another, or cut its end: the record goes
    // to a shard of its own then. A file system that does that again and again cannot keep a store.
    for (int attempt = 0; attempt < 3; ++attempt) {
      if (write(record, line)) return;
      file.close();
      std::this_thread::sleep_for(kDeletion);
      std::error_code ignored;
      if (!is_in_place() || !fs::exists(root / "store.json", ignored)) break;
    }
    throw StoreError(fmt::format("{}: the shard was deleted while it was written; the record of {} is lost",
                                 shard.string(), record.id));
  }

  /// False: the shard is gone, or was cut.
  bool write(const Record& record, const std::string& line) {
    if (!file.is_open()) open_shard();
    if (const int error_number = write_all(system, file, line); error_number != 0) {
      if (error_number == ESTALE) return false;  // a network file system's word for it
      take_back();
      fail(record, error_number);
    }
    int result = system.fdatasync(file.number());
    while (result < 0 && errno == EINTR) result = system.fdatasync(file.number());
    if (result < 0) {
      const int error_number = errno;
      if (error_number == ESTALE) return false;
      // What the disk holds is unknown now, and a second fdatasync would not tell.
      take_back();
      file.close();
      fail(record, error_number);
    }
    end += static_cast<off_t>(line.size());
    struct stat now {};
    if (::fstat(file.number(), &now) == 0 && (now.st_nlink == 0 || now.st_size < end)) return false;
    if (!is_in_place()) {
      throw StoreError(fmt::format(
          "{}: the store was moved or deleted while records were written to it; those of this process, up to {}, lie where it is now",
          root.string(), record.id));
    }
    return true;
  }

  bool is_in_place() const {
    struct stat now {};
    return ::stat((root / "shards").c_str(), &now) == 0 && now.st_dev == device && now.st_ino == inode;
  }

  [[noreturn]] void fail(const Record& record, int error_number) const {
    throw StoreError(fmt::format(
        "{}: the record of {} cannot be written: {}. The store is sound; the same command goes on from here",
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
  LivingWriters living(root);
  for (const fs::path& shard : list_shards(root)) {
    // Readers cope with what is not repaired, so that a repair which fails is told but stops nobody.
    try {
      std::string note = repair_shard(system, shard, root / "quarantine", living);
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
  const std::lock_guard guard(impl_->mutex);
  const fs::path folder = impl_->root / "studies";
  const fs::path path = file_named(folder, name, ".toml");
  make_folders(impl_->system, folder);
  std::error_code ignored;
  if (fs::exists(path, ignored) && read_file(impl_->system, path) == toml_text) return;
  write_whole(impl_->system, path, toml_text);
}

const std::vector<std::string>& StoreWriter::notes() const { return impl_->notes; }

}  // namespace crosstalk
