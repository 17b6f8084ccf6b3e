// Profiles of a trained memory: accuracy on the test split by properties of the queries.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <vector>

#include "experiments/training/evaluation.h"
#include "experiments/training/evaluator.h"
#include "results/store/record.h"
#include "tasks/task.h"

namespace crosstalk {

/// Accuracy, and share of sequences with every query so far right, against a number that each query has, such as the
/// operations before it: `keys` [sequences, Q].
struct KeyProfile {
  Series accuracy, exact;
};
KeyProfile by_key(const QueryResults& results, const std::vector<std::int32_t>& keys);

/// Share of sequences whose first `answers` answers are all right.
double exact_prefix(const QueryResults& results, int answers);

/// The query slots of the first sequences of the test split, as the task writes them.
struct QueryFacts {
  std::vector<std::int32_t> position;     ///< [sequences, Q] tokens read
  std::vector<std::int32_t> meta;         ///< [sequences, Q, meta_count]
  std::vector<std::int32_t> target = {};  ///< [sequences, Q] classes due
  std::vector<std::int32_t> column(Meta which) const;
};
QueryFacts query_facts(const Task& task, std::uint64_t data_seed, int sequences);

/// Accuracy over chance (0: chance, 1: all right) of the queries in the last quarter of a sequence of T tokens; NaN if
/// there are none.
double scaled_accuracy_last_quarter(const QueryResults& results, const QueryFacts& facts, int T,
                                    double chance);

/// Of a task of single tokens: accuracy_by_position and exact_by_position (one kind of sequence only), by_gap (at least
/// so many tokens: powers of 2), by_writes and by_touches of the asked key; each where it varies.
void add_token_profiles(Record& record, const std::vector<QueryResults>& results,
                        const std::vector<QueryFacts>& facts);

/// Of a mixture: accuracy_by_segment, exact_by_segment and loss_by_segment over 1, 2, ... in the order of the study, and
/// test_accuracy_NAME of each.
void add_segment_profiles(Record& record, const std::vector<SplitPart>& parts,
                          const std::vector<QueryResults>& results);

}  // namespace crosstalk
