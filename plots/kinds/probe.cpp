// The figure of untrained memories beside theory.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure probe() {
  return {.kind = {.name = "probe",
                   .summary =
                       "Squared error and recall of untrained memories (model.name = probe), beside theory",
                   .x = "Pairs stored per dimension, n / d_key, a column of panels for each d_key.",
                   .y = "Squared error of what is retrieved (above) and recall among random codes "
                        "(below), beside theory.",
                   .statistic = kMedian,
                   .options = {"--no-theory"},
                   .columns = columns_over("associations", {"model.d_key", "metric"})},
          .draw = draw_probe,
          .has_own_panels = true};
}

}  // namespace crosstalk::figures
