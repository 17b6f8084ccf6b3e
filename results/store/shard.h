// One shard of a store: its lines, intact or not, and its repair.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/file_system.h"

namespace crosstalk {

class LivingWriters;

/// A piece of a shard's text. Damaged lines are searched for intact records, as a damaged newline glues two.
struct ShardPiece {
  enum class Kind {
    intact,   ///< a sealed record whose checksum matches
    damaged,  ///< a line, or what is left of it, that is no such record
    torn      ///< bytes behind the last newline that are no such record: a write that was cut short
  };
  Kind kind;
  std::size_t line;  ///< from 1
  std::string_view text;
};

struct ShardText {
  std::vector<ShardPiece> pieces;
  bool clean = true;               ///< nothing but intact records, each with its newline
  bool only_tail_is_torn = false;  ///< clean but for the bytes behind the last newline
  std::size_t end = 0;             ///< where the last line that has a newline ends
};
ShardText split_shard(std::string_view bytes);

/// Calls `each` with the pieces of an open shard in order and with where each begins; holds a few MB at a
/// time. `path` is for messages. Throws StoreError.
void for_each_piece(FileSystem& system, const std::filesystem::path& path,
                    const std::function<void(const ShardPiece& piece, std::int64_t begin)>& each);

/// The shards of a store, sorted by name.
std::vector<std::filesystem::path> list_shards(const std::filesystem::path& store);

/// Cuts the torn tail of a shard whose writer is gone and moves damaged lines to `quarantine`. A shard that
/// is clean, that another process holds or whose writer is among the living, is left alone. Returns what was done in one
/// line, or nothing. Throws StoreError; the shard then still has every intact line.
std::string repair_shard(FileSystem& system, const std::filesystem::path& shard,
                         const std::filesystem::path& quarantine, LivingWriters& living);

}  // namespace crosstalk
