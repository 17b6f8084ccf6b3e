// The figure of learning curves.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure curves() {
  return {.kind = {.name = "curves",
                   .summary = "Learning curves: evaluation loss against training step",
                   .x = "Training step.",
                   .y = "The curve of --metric: eval_loss (default), eval_accuracy, eval_exact or "
                        "train_loss; at the largest number of associations unless --where picks another.",
                   .statistic = "Line: the median over seeds at each step; band: its interval. A run that "
                                "stopped early keeps its last value.",
                   .threshold = kSolvedBelow,
                   .columns = columns_over("step")},
          .draw = draw_curves};
}

}  // namespace crosstalk::figures
