// A budget for a study from a few runs of it: steps, evaluations and learning rates.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "results/store/record.h"

namespace crosstalk::program {

/// The easiest and the hardest of the points that `runs` sweep (equal where they sweep none): the load, the product of
/// the numbers of the task that vary, over the room, the product of those of the model.
struct Extremes {
  std::vector<const Run*> easiest, hardest;
};
Extremes extremes_of(const std::vector<Run>& runs);

/// Steps after which a run had learnt what it learnt: to the evaluation that met its stop rule, else to the first whose loss has
/// come 95 % of the way from the first to the best.
std::int64_t steps_needed(const Record& record);

/// How runs of one label at one point did, the best rate first: solved before unsolved, then by steps or by accuracy.
struct Tried {
  std::string label;
  double rate = 0;
  std::int64_t steps = 0;
  bool solved = false;
  double accuracy = 0;
};
std::vector<Tried> by_success(const std::vector<const Record*>& records);

/// What follows for the whole study.
struct Budget {
  std::int64_t steps = 0, every = 0;
  std::set<double> rates;
  std::vector<std::string>
      edges;  ///< labels whose best rate is the smallest or the largest tried, a sentence each
};
/// Twice the steps that the slowest label needed with its best rate (few seeds need more), in 20 evaluations; the rates with which some label did
/// nearly as well as with its best one.
Budget budget_of(const std::vector<std::vector<Tried>>& tried, const std::set<double>& all_rates);

}  // namespace crosstalk::program
