// Learning-rate windows, as figure and table have them: at which rates the median of a memory's seeds solves the task, and its best.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <vector>

#include "plots/drawing/drawing.h"

namespace crosstalk {

struct RateWindow {
  LineEntry line;
  int tried = 0, good = 0;           ///< rates with runs, and those whose median meets the threshold
  double smallest = 0, largest = 0;  ///< of the good ones
  FigureRow best;                    ///< the row of the best median
};

struct Windows {
  Metric metric;
  double threshold = 0;          ///< at least this accuracy, at most this loss
  std::vector<RateWindow> rows;  ///< most good rates first, then by the best median
};

inline constexpr const char* kLearningRate = "train.learning_rate";
std::optional<double> learning_rate_of(const Record& record);
/// Throws std::invalid_argument where there are not two rates, or --best chooses one.
void check_rates(const FigureInput& input);

/// What is drawn and tabulated: --metric, else accuracy of token tasks and loss of others, of the test split where it was read.
Metric window_metric(const FigureInput& input);

/// A line a memory, a row a rate: medians and intervals of the test split (of validation where it was not read), of --metric if given.
/// Throws std::invalid_argument where there are not two rates.
Drawing draw_windows(const FigureInput& input);
/// The windows of its rows. --threshold, else an accuracy of 0.9, or the loss that counts as solved.
Windows windows_of(const FigureInput& input, const Drawing& drawing);

}  // namespace crosstalk
