// What guessing, or answering nothing, reaches on a task, and which runs lie within its noise: of those nothing is to be seen.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "results/numbers/select.h"

namespace crosstalk {

/// How many answers the evaluation behind a metric of a record reads (test_...: on the test split); nothing where that is not
/// known.
using AnswersOf = std::function<std::optional<double>(const Record&, const std::string& metric)>;

/// The noise of a share of right guesses, in standard deviations of the binomial distribution.
inline constexpr double kChanceDeviations = 2;

/// Whether a run's accuracy, on the split of `metric`, is at most chance plus kChanceDeviations of as many guesses as answers
/// were read (where that is not known: kChanceMargin of the way to 1, verdict.h). Of a run that is known by its loss alone:
/// whether that is less than kTrend below the loss of answering nothing. Nothing where its record says neither, and of probes,
/// failed and diverged runs.
std::optional<bool> is_within_chance(const Record& record, const std::string& metric,
                                     const AnswersOf& answers);

/// The same counted.
struct ChanceCount {
  int runs = 0, within = 0;  ///< of the runs of which it is known
  /// "Chance: accuracy 0.0312, loss 3.47; 45 of 54 runs lie within its noise."; "" where nothing is known. The loss is
  /// that of answering nothing (0, or all answers alike), and is left out where `metric` is an accuracy.
  std::string text;
};
ChanceCount chance_of(const RecordList& records, const std::string& metric, const AnswersOf& answers);

}  // namespace crosstalk
