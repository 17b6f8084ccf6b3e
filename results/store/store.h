// The store: append-only JSONL shards in a folder, one writer a file, a checksum a line. A run is done when a
// record of it exists. No locks: a run that two writers did gives the same record twice, and readers keep
// one.
//
//   STORE/store.json               format version
//   STORE/studies/NAME.toml        verbatim copy of the study
//   STORE/studies/NAME@*.json      which runs it asks for, under which labels (asked.h)
//   STORE/shards/HOST-PID-CHANCE-N.jsonl  one line a record
//   STORE/weights/RUN_ID.npz       final weights (weights.h), of runs with train.keep_weights
//   STORE/quarantine/              lines that failed their checksum
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

class FileSystem;

/// Reading or writing the store failed (exit code 3).
struct StoreError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The path given for a store cannot be one: a file in its place, an unwritable folder, a foreign folder
/// (exit code 2).
struct StorePathError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a reader found.
struct StoreContents {
  std::map<std::string, Record> records;  ///< by id; done or diverged wins over failed, else the later one
  std::size_t bad_lines = 0;              ///< lines left out: checksum, not JSON, missing fields
  std::size_t torn_tails = 0;             ///< last lines without a newline
  std::size_t duplicates = 0;             ///< further records of the same id
  std::vector<std::string> conflicts;     ///< ids whose duplicates differ in a deterministic field
  std::vector<std::string> warnings;      ///< one line each, for stderr
};

/// Where a record's line lies.
struct RecordPlace {
  std::size_t shard = 0;
  std::int64_t begin = 0;
  std::size_t size = 0;
  int semantics = 0;  ///< with which it was made; 0: it does not say
};

/// A store without the content of its records: of a hundred thousand runs in a second and little memory.
struct StoreHeads {
  StoreContents contents;                     ///< of each record only id, study, label, status and seed
  std::map<std::string, RecordPlace> places;  ///< of the same records
  std::vector<std::filesystem::path> shards;
  std::string last;  ///< the id of the record that was finished last; "" = none
};
StoreHeads read_heads(const std::filesystem::path& path);

/// Reads records of a store whose heads were read. Throws StoreError where a line is no longer there.
class RecordReader {
 public:
  explicit RecordReader(const StoreHeads& heads);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;
  /// The line without its newline; valid until the next call.
  const std::string& line(const std::string& id);
  Record record(const std::string& id);
  /// line(), where this program wrote it; else empty. Throws where it is not intact.
  std::string_view written_line(const std::string& id);
  /// The same with empty curves and profiles, and perhaps an empty provenance: sooner.
  Record record_without_series(const std::string& id, bool provenance);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Reads a store without changing it. Throws StorePathError if `path` is not a store. Bad content never
/// throws: it is left out, counted and told in `warnings`.
StoreContents read_store(const std::filesystem::path& path);
StoreContents read_store(const std::filesystem::path& path, FileSystem& system);

/// Appends records to a store. Opening creates the folder if needed, cuts the torn tails of shards whose
/// writer is gone and moves bad lines to quarantine. append() is one write + fdatasync and is thread-safe; on
/// a short write (disk full) it truncates back and throws StoreError.
class StoreWriter {
 public:
  /// Throws StorePathError before anything is created if `path` cannot be a store.
  explicit StoreWriter(const std::filesystem::path& path);
  StoreWriter(const std::filesystem::path& path, FileSystem& system);
  ~StoreWriter();
  StoreWriter(const StoreWriter&) = delete;
  StoreWriter& operator=(const StoreWriter&) = delete;

  /// When it returns, the record is on disk; when it throws, the run counts as missing. Can be called again
  /// after a failure.
  void append(const Record& record);
  /// Whether the store still lies where it was opened. A store that was moved goes on taking records, where
  /// it is now; nothing else must be written to its old place.
  bool is_in_place() const;
  /// Keeps a verbatim copy of the study's text.
  void keep_study(const std::string& name, const std::string& toml_text);
  /// What opening repaired or had to leave as it is, one line each, for stderr.
  const std::vector<std::string>& notes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Checks that a store could be created or opened for writing at `path` without touching the disk.
/// Throws StorePathError.
void check_store_path(const std::filesystem::path& path);

}  // namespace crosstalk
