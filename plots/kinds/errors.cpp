// The figure of the kinds of wrong answers.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {

Figure errors() {
  return {
      .kind =
          {.name = "errors",
           .summary = "Kinds of wrong answers: an old value of the key, another key's, never written, ...",
           .x = "Share of the queries of the test split that were answered wrongly, a bar for each memory; a "
                "panel for each value of --facet KEY.",
           .y = "Kinds of wrong answers, the columns error_... of an export: the first that applies to what "
                "was answered.",
           .statistic =
               "Mean over the seeds that did not diverge (shares of medians would not add up); lo and "
               "hi are their range.",
           .columns = {"label", "d_dot", "test_accuracy", "n", "mean", "lo", "hi", "metric"}},
      .draw = draw_errors,
      .has_own_panels = true};
}

}  // namespace crosstalk::figures
