// What the best answer without the order of writes costs on the very sequences that a run was evaluated on.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>

#include "results/numbers/chance.h"

namespace crosstalk {

/// The mean over the queries of the run's evaluation sequences (metric eval_loss) or test sequences (test_loss)
/// of half the squared error of the mean of the values written to the key. Nothing where that is no theory of
/// the run (sum_rule_floor()), where every evaluation drew fresh sequences (protocol schlag2021), for other
/// metrics, and where the record does not say what to draw.
///
/// The sequences are few, and a run that knows no more may come out slightly below by luck; the expectation over
/// all data lies up to some per cent beside it.
std::optional<double> evaluated_sum_rule_floor(const Record& record, const std::string& metric);

/// How many answers the evaluation behind a metric reads, at most: sequences of its split times queries of each. Asks the task
/// once for each of its configurations; nothing where no task is described, or its files are not there.
AnswersOf evaluated_answers();

}  // namespace crosstalk
