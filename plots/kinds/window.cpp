// The figure of the learning rates at which a memory trains.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure window() {
  return {
      .kind = {.name = "window",
               .summary =
                   "Metric, share solved and gradient norm against the learning rate, the best rate marked",
               .x = "Learning rate.",
               .y = "Above: test_accuracy of language models, else test_loss, or any --metric; then the "
                    "share of runs that are solved; below: the norm of the gradient before clipping, the "
                    "median over training, dotted the largest. Of more than eight memories each has a "
                    "panel, shaded by the share that is solved.",
               .statistic = "Point: one seed; line: the median over seeds. Ring: the rate with the "
                            "lowest median validation loss (--best-by accuracy: the highest accuracy); "
                            "below it stands for whom that is the largest or smallest tried.",
               .threshold =
                   "Runs that met train.stop_loss or train.stop_accuracy ('crosstalk describe verdict').",
               .columns = columns_over("train.learning_rate", {"metric"})},
      .draw = draw_window,
      .has_own_panels = true};
}

}  // namespace crosstalk::figures
