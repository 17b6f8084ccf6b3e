// The figure of accuracy against the number of operations.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure tracking() {
  return {
      .kind =
          {.name = "tracking",
           .summary = "Accuracy against the number of operations before the query",
           .x = "Operations before the query (task swap), or the position of the token (task words); where "
                "a sequence has one answer (task arithmetic) its tokens, sixteen groups of lengths.",
           .y = "Accuracy there; thin lines: the share of sequences with every answer so far "
                "right. Dotted line: the training length.",
           .statistic = kMedian,
           .options = {"--no-theory"},
           .columns = columns_over("operations")},
      .draw = draw_tracking};
}

}  // namespace crosstalk::figures
