// The figure of accuracy against any key.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure accuracy() {
  return {.kind = {.name = "accuracy",
                   .summary = "Accuracy against pairs, width, state bytes or any other key (--x)",
                   .x = "--x KEY, state_bytes (4 bytes a float, or as a table gives it), or the key that "
                        "varies: pairs, associations, width, length, d_key or learning rate.",
                   .y = "eval_accuracy, with --best test_accuracy; or any --metric. Dashed: chance, "
                        "where all runs share it.",
                   .statistic = kMedian,
                   .options = {"--x", "--no-theory", "--published"},
                   .columns = columns_over("KEY")},
          .draw = draw_accuracy};
}

}  // namespace crosstalk::figures
