// What a figure's file is made of: a file plots/kinds/NAME.cpp defines figures::NAME(), and the build finds it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plots/drawing/drawing.h"

namespace crosstalk {

struct Figure {
  FigureKind kind;
  Drawing (*draw)(const FigureInput&);
  bool has_own_panels = false;  ///< --facet means nothing to it
};

/// All figures, by name.
const std::vector<Figure>& figure_files();
/// Throws std::invalid_argument with the names where there is none.
const Figure& find_figure(const std::string& name);

// What `describe FIGURE` says of several figures.
inline constexpr const char* kMedian =
    "Line: the median over seeds; band: its interval ('crosstalk describe intervals'). Diverged runs count "
    "as the worst, and a point of which half or more diverged is a cross.";
inline constexpr const char* kSolvedBelow =
    "--threshold X; without it twice the largest train.stop_loss of the runs ('crosstalk describe threshold').";
inline constexpr const char* kCapacityBars =
    "Point: the capacity from the median over seeds; bar: from the last solved number of a low seed to the next tested number of a high one "
    "('crosstalk describe intervals'). An arrow: solved to the end of the grid.";
inline constexpr const char* kAssociations = "task.associations, the number of associations S";

/// The columns of a CSV over x.
inline std::vector<std::string> columns_over(const char* x, const std::vector<std::string>& further = {}) {
  std::vector<std::string> all = {"label", "d_dot", x, "n", "median", "lo", "hi"};
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

/// The corners of the stairs (rows "front") along the points at which no other has both a smaller x and the better value.
inline std::vector<FigureRow> front_of(std::vector<FigureRow> rows, bool less_is_better) {
  const auto gain = [&](const FigureRow& row) { return less_is_better ? -row.median : row.median; };
  std::ranges::sort(rows, {}, [&](const FigureRow& row) { return std::pair(row.x, -gain(row)); });
  std::vector<FigureRow> stairs;
  for (const FigureRow& row : rows) {
    if (!stairs.empty() && gain(row) <= gain(stairs.back())) continue;
    if (!stairs.empty()) stairs.push_back({"front", 0, row.x, 0, stairs.back().median});
    stairs.push_back({"front", 0, row.x, 0, row.median});
  }
  return stairs;
}

}  // namespace crosstalk
