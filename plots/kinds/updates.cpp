// The figure of the final loss of update rules against the number of associations.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure updates() {
  return {.kind = {.name = "updates",
                   .summary = "Final loss against associations of update rules, with the sum rule's floor",
                   .x = kAssociations,
                   .y = "The final loss, on a logarithmic axis that ends at half the threshold: what is "
                        "below is solved. Thin line: the floor of memories that do not see the order of "
                        "writes.",
                   .statistic = kMedian,
                   .threshold = kSolvedBelow,
                   .options = {"--no-theory", "--published"},
                   .columns = columns_over("associations")},
          .draw = draw_updates};
}

}  // namespace crosstalk::figures
