// The figure of capacity against d_dot.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure capacity_vs_ddot() {
  return {
      .kind = {.name = "capacity-vs-ddot",
               .summary = "Capacity of each memory against d_dot, with the fitted slope",
               .x = "d_dot, the dimension of the feature map's output; memories without one are left out.",
               .y = "Capacity: the largest number of associations such that it and every smaller "
                    "tested number are solved.",
               .statistic = kCapacityBars,
               .threshold = kSolvedBelow,
               .options = {"--no-theory"},
               .columns = columns_over("d_key", {"censored", "unsolved"})},
      .draw = draw_capacity_vs_ddot};
}

}  // namespace crosstalk::figures
