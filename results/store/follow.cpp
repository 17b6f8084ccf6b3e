// Records that were added to a store.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/follow.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "results/store/files.h"
#include "results/store/record_io.h"
#include "results/store/shard.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

namespace fs = std::filesystem;

/// `size` bytes from `begin` on; fewer where the file ends.
std::string read_at(const File& file, std::int64_t begin, std::int64_t size) {
  std::string bytes(static_cast<std::size_t>(std::max<std::int64_t>(0, size)), '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::pread(file.number(), bytes.data() + got, bytes.size() - got,
                              static_cast<off_t>(begin + static_cast<std::int64_t>(got)));
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  bytes.resize(got);
  return bytes;
}

std::int64_t steps_of(std::string_view line) {
  constexpr std::string_view key = ",\"steps\":";
  const std::size_t at = line.find(key, line.find(",\"state_size\":"));
  std::int64_t steps = 0;
  if (at != std::string_view::npos)
    std::from_chars(line.data() + at + key.size(), line.data() + line.size(), steps);
  return steps;
}

/// provenance.race
std::string race_of_line(std::string_view line) {
  constexpr std::string_view key = "\"race\":\"";
  const std::size_t found = line.find(key, std::min(line.size(), line.rfind(",\"provenance\":")));
  if (found == std::string_view::npos) return "";
  const std::size_t begin = found + key.size();
  return std::string(line.substr(begin, line.find('"', begin) - begin));
}

std::vector<fs::path> shards_of(const fs::path& store) {
  try {
    return list_shards(store);
  } catch (const StoreError&) {
    return {};
  }
}

}  // namespace

ShardPositions shard_positions(const fs::path& store) {
  ShardPositions positions;
  for (const fs::path& path : shards_of(store)) {
    const File file = open_file(FileSystem::real(), path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    // Back to the end of a line: the writer may be in the middle of the next one.
    std::int64_t end = status.st_size;
    while (end > 0) {
      constexpr std::int64_t step = 1 << 16;
      const std::int64_t begin = std::max<std::int64_t>(0, end - step);
      const std::size_t newline = read_at(file, begin, end - begin).rfind('\n');
      if (newline != std::string::npos) {
        end = begin + static_cast<std::int64_t>(newline) + 1;
        break;
      }
      end = begin;
    }
    positions[path.filename().string()] = end;
  }
  return positions;
}

StoreFollower::StoreFollower(fs::path store, ShardPositions from) : store_(std::move(store)) {
  for (const auto& [name, end] : from) positions_[name].end = end;
}

std::vector<RecordHead> StoreFollower::added() {
  std::vector<RecordHead> heads;
  for (const fs::path& path : shards_of(store_)) {
    // Opened, not only looked at: on a network file system that is what shows other machines' bytes.
    const File file = open_file(FileSystem::real(), path, O_RDONLY | O_NONBLOCK);
    struct stat status {};
    if (!file.is_open() || ::fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    Position& position = positions_[path.filename().string()];
    if (position.file != 0 && position.file != status.st_ino) position.end = 0;
    position.file = status.st_ino;
    if (status.st_size < position.end) position.end = 0;  // a repair wrote it anew
    constexpr std::int64_t step = 16 << 20;
    while (position.end < status.st_size) {
      std::int64_t size = std::min<std::int64_t>(step, status.st_size - position.end);
      std::string bytes = read_at(file, position.end, size);
      std::size_t end = bytes.rfind('\n');
      if (end == std::string::npos && position.end + size < status.st_size) {  // one very long line
        bytes = read_at(file, position.end, status.st_size - position.end);
        end = bytes.rfind('\n');
      }
      if (end == std::string::npos) break;  // a line that has no end yet
      bytes.resize(end + 1);
      for (const ShardPiece& piece : split_shard(bytes).pieces) {
        if (piece.kind != ShardPiece::Kind::intact) continue;
        std::optional<Record> record = head_of(piece.text);
        if (!record) record = from_intact_line(piece.text).record;
        if (record)
          heads.push_back({record->id, record->status, steps_of(piece.text), record->study, record->label,
                           race_of_line(piece.text)});
      }
      position.end += static_cast<std::int64_t>(bytes.size());
    }
  }
  return heads;
}

}  // namespace crosstalk
