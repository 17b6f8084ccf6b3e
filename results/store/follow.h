// Which runs were recorded since a given moment, by whichever process: reads only what was added to the
// shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// Shard's name -> bytes of it that were seen, always whole lines.
using ShardPositions = std::map<std::string, std::int64_t>;

/// Where the shards end now. Taken before a store is read, nothing falls between the two.
ShardPositions shard_positions(const std::filesystem::path& store);

/// The head of a record.
struct RecordHead {
  std::string id;
  RunStatus status = RunStatus::done;
  std::int64_t steps = 0;
  std::string study, label;
  std::string race = {};  ///< of train.race, of a run that was solved
};

class StoreFollower {
 public:
  StoreFollower(std::filesystem::path store, ShardPositions from);
  /// Records that were added since the last call. A store or shard that cannot be read has none.
  std::vector<RecordHead> added();

 private:
  struct Position {
    std::int64_t end = 0;
    std::uint64_t file = 0;  ///< a shard that is written anew is another file; 0 = not known yet
  };
  std::filesystem::path store_;
  std::map<std::string, Position> positions_;
};

}  // namespace crosstalk
