// Tables as records: what `export` wrote, or anybody's own results in the same columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "results/asked.h"

namespace crosstalk {

/// Reads a CSV file, one run a row. Needed are the columns label, eval_loss or an accuracy, and at least one key of a
/// configuration ("task.associations"); `export` writes all of them. A row without id gets one of its own (no run's:
/// FILE:LINE), one without status is done (or diverged, where its loss is nan). An empty loss is one
/// that is missing (status failed). Columns that are neither known nor have a dot in their name are metrics where they are
/// numbers, and keys of the configuration where they are words. `export --curves` beside it (NAME.curves.csv), if there
/// is such a file, gives curves and profiles back. Rows that repeat another are left out, as drop_repeats() says. Throws
/// std::invalid_argument with path and line.
LabelledRecords read_export(const std::filesystem::path& path);

/// Columns of another program's table as those of ours: (our name, theirs), and (our name, a value that all rows have).
struct Renaming {
  std::vector<std::pair<std::string, std::string>> columns, constants;
};
/// Reads what Weights & Biases and TensorBoard write: a table of runs, a row each, under our names (states of runs as our status;
/// runs that are still going are left out); a chart of Weights & Biases ("Step", "RUN - METRIC") or a scalar of TensorBoard ("Wall
/// time", "Step", "Value": one run, the file's name unless `constants` have a label), whose curves end in the numbers of their runs.
/// Throws std::invalid_argument.
LabelledRecords read_foreign(const std::filesystem::path& path, const Renaming& renaming);

}  // namespace crosstalk
