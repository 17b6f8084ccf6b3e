// Shows a task's sequences: as text for people, as .npy files for their own code.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>

#include "tasks/task.h"

namespace crosstalk {

/// The split named "train", "eval" or "test", and back.
const char* split_name(Split split);

/// Sequences 0 .. count-1 of `split`, of a mixture those of each segment, each under a heading.
std::string sample_text(const Task& task, Split split, std::uint64_t seed, int count, int max_queries = 0);

/// What write_sample writes and notes down.
struct SampleRequest {
  std::string task_name;
  Options options;  ///< resolved; noted in README.txt as they stand
  Split split = Split::train;
  std::uint64_t seed = 0;
  int count = 4;
  int max_queries = 0;  ///< 0 = all
};

/// The disk is full, or fails: nothing was changed.
struct SampleWriteError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Writes sequences 0 .. count-1 into `directory` (made if its parent exists): keys, values, operations and
/// second_keys [N,L], query, query_position and answer [N,Q], or of single tokens: tokens [N,L], positions and targets
/// [N,Q], as int64 .npy, and README.txt, which says what each is. A sample that lies there is replaced. Throws std::runtime_error before
/// anything is created when the directory cannot be written or holds a README.txt that is not a sample's; SampleWriteError
/// when writing fails on the way.
void write_sample(const std::string& directory, const Task& task, const SampleRequest& request);

}  // namespace crosstalk
