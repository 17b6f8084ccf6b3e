// One shard of a store: its lines, intact or not, and its repair.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "results/store/claims.h"
#include "results/store/crc32c.h"
#include "results/store/files.h"
#include "results/store/record_io.h"
#include "results/store/store.h"

namespace crosstalk {
namespace {

using Kind = ShardPiece::Kind;

// A quote inside a JSON string is escaped, so this can only be the head of a record.
constexpr std::string_view record_head = "{\"v\":1,\"id\":\"";

// The record at the head of a piece, without stray bytes behind it.
std::string_view without_stray_bytes(std::string_view piece) {
  const std::size_t end = piece.rfind("\"}");
  return end == std::string_view::npos ? piece : piece.substr(0, end + 2);
}

// Takes a line that is not intact apart at every head of a record.
void split_damaged(std::string_view text, std::size_t line, Kind kind_of_rest, std::vector<ShardPiece>& out) {
  while (!text.empty()) {
    const std::size_t next = std::min(text.find(record_head, 1), text.size());
    const std::string_view piece = text.substr(0, next);
    const std::string_view trimmed = without_stray_bytes(piece);
    if (is_intact(trimmed)) {
      out.push_back({Kind::intact, line, trimmed});
    } else {
      out.push_back({kind_of_rest, line, piece});
    }
    text.remove_prefix(next);
  }
}

std::string quarantine_text(const ShardText& text) {
  std::string out;
  for (const ShardPiece& piece : text.pieces) {
    if (piece.kind != Kind::damaged) continue;
    out += fmt::format("# line {}: checksum does not match\n{}\n", piece.line, piece.text);
  }
  return out;
}

std::string intact_lines(const ShardText& text) {
  std::string out;
  for (const ShardPiece& piece : text.pieces) {
    if (piece.kind == Kind::intact) out.append(piece.text).append("\n");
  }
  return out;
}

}  // namespace

ShardText split_shard(std::string_view bytes) {
  ShardText out;
  std::size_t line = 1;
  std::size_t at = 0;
  for (; at < bytes.size(); ++line) {
    const std::size_t newline = bytes.find('\n', at);
    if (newline == std::string_view::npos) break;
    const std::string_view text = bytes.substr(at, newline - at);
    if (is_intact(text)) {
      out.pieces.push_back({Kind::intact, line, text});
    } else if (!text.empty()) {
      split_damaged(text, line, Kind::damaged, out.pieces);
      out.clean = false;
    }
    at = newline + 1;
  }
  out.end = at;
  if (at < bytes.size()) {
    const bool rest_is_clean = out.clean;
    const std::size_t before = out.pieces.size();
    split_damaged(bytes.substr(at), line, Kind::torn, out.pieces);
    out.clean = false;
    out.only_tail_is_torn =
        rest_is_clean && out.pieces.size() == before + 1 && out.pieces.back().kind == Kind::torn;
  }
  return out;
}

void for_each_piece(FileSystem& system, const std::filesystem::path& path,
                    const std::function<void(const ShardPiece& piece, std::int64_t begin)>& each) {
  const File file = open_regular(system, path);
  std::string bytes;
  std::int64_t begin = 0;  // of `bytes` in the file
  std::size_t lines = 0;
  for (;;) {
    constexpr std::size_t step = std::size_t{4} << 20;
    const bool more = read_some(system, file, path, bytes, step);
    // What has no newline yet waits for the rest, or is the torn tail.
    const std::size_t size = more ? bytes.rfind('\n') + 1 : bytes.size();
    for (ShardPiece& piece : split_shard(std::string_view(bytes).substr(0, size)).pieces) {
      piece.line += lines;
      each(piece, begin + (piece.text.data() - bytes.data()));
    }
    if (!more) return;
    lines += static_cast<std::size_t>(
        std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size), '\n'));
    begin += static_cast<std::int64_t>(size);
    bytes.erase(0, size);
  }
}

std::vector<std::filesystem::path> list_shards(const std::filesystem::path& store) {
  std::vector<std::filesystem::path> out;
  std::error_code error;
  std::filesystem::directory_iterator at(store / "shards", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::filesystem::path& path = at->path();
    if (path.extension() == ".jsonl" && path.filename().string().front() != '.') out.push_back(path);
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    throw StoreError(fmt::format("{}: cannot be listed: {}", (store / "shards").string(), error.message()));
  }
  std::ranges::sort(out);
  return out;
}

std::string repair_shard(FileSystem& system, const std::filesystem::path& shard,
                         const std::filesystem::path& quarantine, LivingWriters& living) {
  if (split_shard(read_file(system, shard)).clean || living.writes(shard)) return "";

  const std::string name = shard.filename().string();
  // In a store that somebody else made, a link may lead to a file that is no shard.
  const File file = open_file(system, shard, O_RDWR | O_NOFOLLOW);
  if (!file.is_open() && errno == ELOOP)
    return fmt::format("shard {}: not repaired: it is a symbolic link", name);
  if (!file.is_open()) return fmt::format("shard {}: not repaired: {}", name, reason_of(errno));
  // The writer of a shard holds this lock as long as it lives, and what looks torn may be its write in
  // progress.
  if (system.flock(file.number(), LOCK_EX | LOCK_NB) < 0) {
    if (errno == EWOULDBLOCK) return "";
    return fmt::format("shard {}: not repaired: cannot be locked: {}", name, reason_of(errno));
  }
  // It may have grown, or have been repaired, before the lock was taken.
  const std::string bytes = read_all(system, file, shard);
  const ShardText text = split_shard(bytes);
  if (text.clean) return "";
  // Where locks say nothing either: it must not be growing at this moment.
  struct stat now {};
  if (::fstat(file.number(), &now) != 0 || now.st_size != static_cast<off_t>(bytes.size())) return "";
  if (text.only_tail_is_torn) {
    if (system.ftruncate(file.number(), static_cast<off_t>(text.end)) < 0 ||
        system.fsync(file.number()) < 0) {
      throw StoreError(
          fmt::format("{}: its torn last line cannot be cut: {}", shard.string(), reason_of(errno)));
    }
    return fmt::format("shard {}: cut the torn last line ({} bytes)", name, bytes.size() - text.end);
  }
  const auto damaged =
      std::ranges::count_if(text.pieces, [](const ShardPiece& piece) { return piece.kind == Kind::damaged; });
  if (damaged > 0) {
    const std::string bad = quarantine_text(text);
    make_folders(system, quarantine);
    // Named by its content: a repair that is cut short and done again leaves one file.
    const std::string bad_name = fmt::format("{}-{:08x}.txt", shard.stem().string(), crc32c(bad));
    write_whole(system, quarantine / bad_name, bad);
  }
  write_whole(system, shard, intact_lines(text));
  return fmt::format("shard {}: moved {} damaged piece{} to {}", name, damaged, damaged == 1 ? "" : "s",
                     quarantine.string());
}

}  // namespace crosstalk
