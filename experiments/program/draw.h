// What `plot` and `table` share: their options and records.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "experiments/common/command.h"
#include "plots/figure.h"

namespace crosstalk::program {

/// --where, --store, --set, --by, --best, --metric, --against, --threshold, --seeds, --published.
std::vector<CommandOption> drawing_options();
/// What they and plot's own options say. Throws UsageError.
FigureOptions figure_options(const Arguments& arguments, const std::string& figure);
/// The rows of these stores, studies and tables, under the names of --titles. Throws UsageError if there are none.
LabelledRecords rows_to_draw(const std::vector<std::string>& names, const Arguments& arguments,
                             Console& console);
/// Lets `draw` write its notes, which are printed; what it refuses (std::invalid_argument) is a UsageError that begins with `what`.
void with_notes(const std::string& what, Console& console,
                const std::function<void(std::ostream& notes)>& draw);
/// Writes what --out names: a file appears whole or not at all; pipes and devices are written as they are. Throws UsageError
/// and StoreError.
void write_output(const std::filesystem::path& path, const std::string& text);
/// The same of a page of `crosstalk KIND`, but over nothing that is not one.
void write_page(const std::filesystem::path& path, const std::string& page, const std::string& kind);

}  // namespace crosstalk::program
