// The figure of losses beyond the training length.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure length() {
  return {
      .kind = {.name = "length",
               .summary = "Loss at multiples of the training length",
               .x =
                   "Length of the test sequences as a multiple of the training length (eval.length_factors).",
               .y = "Loss, or --metric accuracy, exact or scaled_accuracy (0 is chance; the default "
                    "where there is one).",
               .statistic = kMedian,
               .options = {"--published"},
               .columns = columns_over("length_factor")},
      .draw = draw_length};
}

}  // namespace crosstalk::figures
