// Which figures suit records, and with which options: for a report, which nobody gives any.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "plots/figure.h"

namespace crosstalk {

/// Keys of the configuration that tell the runs of a label apart, beside seeds; of keys that say the same (d_key and the
/// width that follows from it) the first, where those that stand on axes come first.
std::vector<std::string> differing_keys(const RecordList& records);

struct SuggestedFigure {
  std::string name;        ///< of figure_kinds()
  std::string table = "";  ///< of table_kinds(): the same numbers; "" = none
  FigureOptions options;   ///< those given, and by, best, facet and where, as far as they were not
};
/// The figures for each task of the records, in order; some may turn out not to suit. `figure` alone if it is not empty.
/// `rates_chosen`: rates are no axis, even where nothing else varies.
std::vector<SuggestedFigure> suggested_figures(const LabelledRecords& rows, const FigureOptions& options,
                                               const std::string& figure, bool rates_chosen = false);

}  // namespace crosstalk
