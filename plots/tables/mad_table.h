// MAD's score: accuracy on six tasks and its mean (Poli et al. 2024, arXiv 2403.17844).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "plots/drawing/drawing.h"

namespace crosstalk {

/// Heads of the columns: the six tasks in the order of published tables, and their mean.
const std::vector<std::string>& mad_columns();

/// A line a memory. Its rows stand at x = 0 .. 5, the tasks that it was trained on: of each seed the mean over settings of
/// difficulty; and at 6, where it has all six: the mean over them. Throws std::invalid_argument where no record is of a task
/// of MAD.
Drawing draw_mad(const FigureInput& input);
/// Its metric: the one asked for, or accuracy.
Metric mad_metric(const FigureInput& input);

}  // namespace crosstalk
