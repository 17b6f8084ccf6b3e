// The figure of capacity against the number of parameters.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

/// More parameters than anything has.
constexpr double kLargestSize = 1e18;

Drawing draw_capacity_vs_parameters(const FigureInput& input) {
  auto lines = lines_over_loads(input, "capacity-vs-parameters", Apart::d_dot_and_d_key);
  std::erase_if(lines, [](const RecordLine& line) {
    return std::ranges::any_of(line.points, [](const auto& point) {
      const double size = size_of(*point.second.front(), Against::parameters);
      return !(size >= 1 && size <= kLargestSize);  // somebody's number may be any, or none
    });
  });
  if (lines.empty())
    throw std::invalid_argument(
        "capacity-vs-parameters needs records with their number of parameters (column parameters); these have none");
  return draw_capacities(input, lines, Against::parameters);
}

}  // namespace

Figure capacity_vs_parameters() {
  return {.kind = {.name = "capacity-vs-parameters",
                   .summary = "Capacity of each memory against the parameters that it trains",
                   .x = "Numbers that training changes (column parameters).",
                   .y = "Capacity, as in capacity-vs-ddot.",
                   .statistic = kCapacityBars,
                   .threshold = kSolvedBelow,
                   .columns = columns_over("parameters", {"censored", "unsolved"})},
          .draw = draw_capacity_vs_parameters};
}

}  // namespace crosstalk::figures
