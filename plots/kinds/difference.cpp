// The figure of differences between labels.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure difference() {
  return {
      .kind =
          {.name = "difference",
           .summary = "Labels held against one of them (--against), paired by seed",
           .x = "The key that varies, as in table final.",
           .y = "The median over seeds of a label's metric minus that of --against LABEL (without it the "
                "first) with the same seed, whose data are the same: test_accuracy of language models, else "
                "test_loss, or any --metric.",
           .statistic = "Line: the median of the differences; band: its interval ('crosstalk describe "
                        "intervals'). A filled marker: told from 0 by the signed-rank test, corrected by "
                        "Holm over all points and lines ('crosstalk describe bold').",
           .options = {"--against"},
           .columns = columns_over("KEY", {"against", "wins", "p", "p_holm", "told"})},
      .draw = draw_difference};
}

}  // namespace crosstalk::figures
