// One shard instead of many.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <filesystem>

namespace crosstalk {

class FileSystem;

struct Compacted {
  std::size_t shards = 0;   ///< that were merged
  std::size_t records = 0;  ///< that the new one holds
  std::size_t dropped = 0;  ///< double records, and failed ones of runs that are done
  std::size_t busy = 0;     ///< shards left alone: their writers live
};

/// Merges the shards of a store whose writers are gone, as locks, claims and heartbeats tell, into one, which holds
/// the record that counts of each run, line by line as it was, sorted by id. Killed at any moment, the store loses nothing: the new shard is
/// in place before the old ones go, and records that are then there twice are equal. Throws StoreError,
/// StorePathError.
///
/// Also where no lock works and a writer beats no longer: what it appends meanwhile is not lost (its shard then stays, or
/// its last record is written again).
Compacted compact_store(const std::filesystem::path& store);
Compacted compact_store(const std::filesystem::path& store, FileSystem& system);

}  // namespace crosstalk
