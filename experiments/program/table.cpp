// crosstalk table: the numbers of figures as tables for papers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "kernels/base/options.h"

namespace crosstalk::program {
namespace {

void check_table(const std::string& name) {
  std::vector<std::string> names;
  for (const FigureKind& kind : table_kinds()) names.push_back(kind.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  const std::string near = nearest_name(name, names);
  throw UsageError(fmt::format(
      "unknown table '{}'; {}", name,
      near.empty() ? "there are " + join(names, ", ", " and ") : fmt::format("did you mean '{}'?", near)));
}

int run_table(const Arguments& arguments, Console& console) {
  const std::string& name = arguments.positional.at(0);
  check_table(name);
  const std::string asked = arguments.get("format", "markdown");
  const TableFormat format = asked == "latex" ? TableFormat::latex
                             : asked == "csv" ? TableFormat::csv
                                              : TableFormat::markdown;
  const FigureOptions options = figure_options(arguments, name);
  const LabelledRecords rows = rows_to_draw(arguments, console);
  std::ostringstream notes;
  std::string text, wrong;
  try {
    text = table_text(name, rows, options, format, notes);
  } catch (const std::invalid_argument& problem) {
    wrong = problem.what();
  }
  console.err << notes.str();
  if (!wrong.empty()) throw UsageError(fmt::format("table {}: {}", name, wrong));
  console.out << text;
  return exit_done;
}

}  // namespace

extern const Command table_command;
const Command table_command = {
    "table",
    "print results as a table for a paper",
    "capacity|updates|tracking|final STORE|STUDY.toml|RUNS.csv... [--format latex|markdown|csv] [OPTIONS]",
    "Prints one row for each memory: its capacity, d_dot and state size (capacity), its final loss at\n"
    "each load (updates), its accuracy at the training length and its multiples (tracking), or any\n"
    "--metric at each load, number of pairs, length or width, whichever varies (final; --x KEY for\n"
    "another); medians over seeds with their intervals, the best of each column in bold. LaTeX\n"
    "needs booktabs and compiles as it is; titles of a study ('title' of its memories) may hold\n"
    "formulas.\n\n"
    "Examples:\n"
    "  crosstalk table capacity runs/quickstart --format latex > capacity.tex\n"
    "  crosstalk table final runs/quickstart --where task.associations=16,32,64\n"
    "  crosstalk table final runs/mqar --metric test_accuracy\n"
    "  crosstalk table final my.toml --best train.learning_rate --format csv\n",
    2,
    -1,
    "needs a table and a store, for example: crosstalk table capacity runs/quickstart",
    [] {
      std::vector<CommandOption> options = {
          {"format", "FORMAT", "markdown (default), latex or csv", false, {"latex", "markdown", "csv"}},
          {"x", "KEY", "Of table final: the key of the columns (default: the one that varies)", false, {}}};
      for (const CommandOption& option : drawing_options())
        if (option.name != "published") options.push_back(option);
      return options;
    }(),
    run_table,
};

}  // namespace crosstalk::program
