// The figure of capacity against d_dot.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

Drawing draw_capacity_vs_ddot(const FigureInput& input) {
  auto lines = lines_over_loads(input, "capacity-vs-ddot", Apart::d_dot_and_d_key);
  std::set<std::string> dropped;
  std::erase_if(lines, [&](const RecordLine& line) {
    if (line.d_dot <= 0) dropped.insert(line.label);
    return line.d_dot <= 0;
  });
  for (const std::string& label : dropped)
    input.notes << fmt::format("{} has no d_dot and is left out\n", label);
  if (lines.empty())
    throw std::invalid_argument("capacity-vs-ddot needs memories with a d_dot; these have none");
  return draw_capacities(input, lines, Against::d_dot);
}

}  // namespace

Figure capacity_vs_ddot() {
  return {
      .kind =
          {.name = "capacity-vs-ddot",
           .summary = "Capacity of each memory against d_dot, with the fitted slope",
           .x = "d_dot, the dimension of the feature map's output; memories without one are left out.",
           .y = "Capacity: the largest tested number of associations up to which every tested one is solved.",
           .statistic = kCapacityBars,
           .threshold = kSolvedBelow,
           .options = {"--no-theory"},
           .columns = columns_over("d_key", {"censored", "unsolved"})},
      .draw = draw_capacity_vs_ddot};
}

}  // namespace crosstalk::figures
