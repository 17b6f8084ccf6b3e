// The figure of capacity against the size of the state.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure capacity_vs_state() {
  return {
      .kind = {.name = "capacity-vs-state",
               .summary = "Capacity of each memory against the size of its state",
               .x =
                   "State size: floats that the memory keeps of a sequence, at the number of associations of "
                   "its capacity (state_size, or state_bytes / 4 of a table); --x state_bytes draws "
                   "bytes.",
               .y = "Capacity, as in capacity-vs-ddot.",
               .statistic = kCapacityBars,
               .threshold = kSolvedBelow,
               .options = {"--x"},
               .columns = columns_over("state_size", {"censored", "unsolved"})},
      .draw = draw_capacity_vs_state};
}

}  // namespace crosstalk::figures
