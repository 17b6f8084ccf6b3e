// Tables as records: what `export` wrote, or anybody's own results in the same columns.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>

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

}  // namespace crosstalk
