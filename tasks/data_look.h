// A look at a task's sequences: what in somebody's own cannot be meant, and how many different ones a generator can draw.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tasks/task.h"

namespace crosstalk {

/// Of given sequences (TaskKind::drawn is false): answers that repeat the input or never change, tokens and answers that only
/// validation or test has, ids far above those in use, sequences of test that stand in training, or twice. A sentence each,
/// with file, count and share. Of large arrays the first sequences are looked at, about a second long, and sentences say so.
std::vector<std::string> doubts_of(const Task& task, const std::string& folder);

/// How many different sequences of training there are, and which share of test stands in training.
struct Space {
  double different = 0, tested = 0;
};
/// By repeats among some thousand that are drawn; none where too few repeat (there are millions, or more), or where sequences
/// of test are longer. `trained`: sequences that training draws.
std::optional<Space> space_of(const Task& task, double trained);

}  // namespace crosstalk
