// The figure of capacity against the number of parameters.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

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
