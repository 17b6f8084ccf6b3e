// The figure of capacity against the size of the state.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

Drawing draw_capacity_vs_state(const FigureInput& input) {
  auto lines = lines_over_loads(input, "capacity-vs-state", Apart::d_dot_and_d_key);
  std::erase_if(lines, [](const RecordLine& line) {
    return std::ranges::any_of(line.points,
                               [](const auto& point) { return state_floats(*point.second.front()) <= 0; });
  });
  if (lines.empty())
    throw std::invalid_argument(
        "capacity-vs-state needs records with a state size (column state_size, or state_bytes); these have none");
  return draw_capacities(input, lines,
                         input.options.x == "state_bytes" ? Against::state_in_bytes : Against::state);
}

}  // namespace

Figure capacity_vs_state() {
  return {
      .kind = {.name = "capacity-vs-state",
               .summary = "Capacity of each memory against the size of its state",
               .x =
                   "State size: floats that the memory keeps of a sequence, at the number of associations of "
                   "its capacity (state_size, or state_bytes / 4 of a table); --x state_bytes draws bytes.",
               .y = "Capacity, as in capacity-vs-ddot.",
               .statistic = kCapacityBars,
               .threshold = kSolvedBelow,
               .options = {"--x"},
               .columns = columns_over("state_size", {"censored", "unsolved"})},
      .draw = draw_capacity_vs_state};
}

}  // namespace crosstalk::figures
