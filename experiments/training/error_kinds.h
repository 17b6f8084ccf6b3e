// Kinds of wrong answers of recall, by the writes of the sequence before the query.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "experiments/training/evaluation.h"
#include "results/store/record.h"
#include "tasks/task.h"

namespace crosstalk {

/// The first that applies to an answer that is wrong.
enum class ErrorKind : int {
  tie,            ///< the right answer, but not larger than every other one (or in another rounding)
  key,            ///< the key itself, where keys can be answers
  oldest,         ///< the first value of the key, overwritten since
  newest,         ///< the last value written to the key, moved away since (values that change places)
  between,        ///< another value that the key was given
  other_context,  ///< a value that the same key was given in another context
  other_value,    ///< a value of another key of the sequence
  never,          ///< nothing that the sequence wrote before the read
};
inline constexpr int kErrorKinds = 8;
/// "tie", "key", ...: metrics are error_NAME.
const char* name_of(ErrorKind kind);

/// A query of a sequence, for its writes.
struct KeyQuery {
  std::int32_t context = 0, key = 0, position = 0, target = 0;
};
ErrorKind error_kind(const std::vector<KeyWrite>& writes, const KeyQuery& asked, std::int32_t answer,
                     bool keys_are_answers);

/// Adds the shares of errors among all queries of the test split as metrics error_NAME, which with the share of right
/// answers add up to 1; nothing of tasks that write no keys, and of models whose answers were not read.
void add_error_shares(Record& record, const std::vector<const Task*>& parts,
                      const std::vector<QueryResults>& results, std::uint64_t data_seed);

}  // namespace crosstalk
