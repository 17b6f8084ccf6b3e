// One shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>

namespace crosstalk {

struct Compacted {
  std::size_t shards = 0;   ///< that were merged
  std::size_t records = 0;  ///< that the new one holds
  std::size_t dropped = 0;  ///< double records, and failed ones of runs that are done
  std::size_t busy = 0;     ///< shards left alone: their writers live
};

/// Merges the shards of a store whose writers are gone into one, which holds the record that counts of each
/// run, line by line as it was, sorted by id. Killed at any moment, the store loses nothing: the new shard is
/// in place before the old ones go, and records that are then there twice are equal. Throws StoreError,
/// StorePathError.
Compacted compact_store(const std::filesystem::path& store);

}  // namespace crosstalk
