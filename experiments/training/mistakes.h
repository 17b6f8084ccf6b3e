// What a wrong answer is: an error taxonomy of recall, from what a sequence wrote before it was asked.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "experiments/training/evaluation.h"
#include "results/store/record.h"
#include "tasks/task.h"

namespace crosstalk {

/// The first that applies to an answer that is wrong.
enum class Mistake : int {
  tie,            ///< the right answer, but not larger than every other one (or in another rounding)
  key,            ///< the key itself, where keys can be answers
  oldest,         ///< what the key was first given, and no longer has
  newest,         ///< what the key was last given, and no longer has (values that change places)
  between,        ///< another value that the key was given
  other_context,  ///< a value that the same key was given in another context
  other_value,    ///< a value of another key of the sequence
  never,          ///< nothing that the sequence wrote before the read
};
inline constexpr int kMistakes = 8;
/// "tie", "key", ...: metrics are error_NAME.
const char* name_of(Mistake mistake);

/// A query of a sequence whose writes are known.
struct AskedKey {
  std::int32_t context = 0, key = 0, position = 0, target = 0;
};
Mistake mistake_of(const std::vector<KeyWrite>& writes, const AskedKey& asked, std::int32_t answer,
                   bool keys_are_answers);

/// Adds the shares of mistakes among all queries of the test split as metrics error_NAME, which with the share of right
/// answers add up to 1; nothing of tasks that write no keys, and of models whose answers were not read.
void add_mistakes(Record& record, const std::vector<const Task*>& parts,
                  const std::vector<QueryResults>& results, std::uint64_t data_seed);

}  // namespace crosstalk
