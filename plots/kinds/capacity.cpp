// The figure of the final loss against the number of associations.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure capacity() {
  return {.kind = {.name = "capacity",
                   .summary = "Final loss against associations; each memory breaks down at its own d_dot",
                   .x = kAssociations,
                   .y = "The final loss: eval_loss, with --best test_loss; or any --metric. Triangles "
                        "mark d_dot, thin lines the rank bound where it is proven ('crosstalk describe "
                        "loss').",
                   .statistic = kMedian,
                   .threshold = kSolvedBelow,
                   .options = {"--no-theory", "--published"},
                   .columns = columns_over("associations")},
          .draw = draw_capacity};
}

}  // namespace crosstalk::figures
