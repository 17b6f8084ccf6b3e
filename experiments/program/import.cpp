// crosstalk import: runs that other programs logged, in the columns of `export`.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "experiments/program/endings.h"
#include "results/csv.h"
#include "results/export.h"
#include "results/replay/import.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;
using Pairs = std::vector<std::pair<std::string, std::string>>;

/// "OURS=THEIRS" of an option; a comma separates several where `commas`.
Pairs pairs_of(const Arguments& arguments, const std::string& option, bool commas) {
  Pairs pairs;
  for (const std::string& given : arguments.all(option))
    for (const std::string& one : commas ? parts_of(given, ',') : std::vector{given}) {
      const std::size_t equals = one.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == one.size())
        throw UsageError(fmt::format(
            "--{} takes OURS=THEIRS, such as label=Name or task.pairs=num_kv_pairs, not '{}'", option, one));
      pairs.emplace_back(one.substr(0, equals), one.substr(equals + 1));
    }
  return pairs;
}

int run_import(const Arguments& arguments, Console& console) {
  const Renaming renaming = {pairs_of(arguments, "columns", true), pairs_of(arguments, "set", false)};
  if (renaming.columns.empty())
    throw UsageError(
        "import: --columns OURS=THEIRS says which columns are read, such as label=Name,eval_accuracy=valid/accuracy");
  const fs::path out = arguments.get("out");
  if (const std::string ending = foreign_ending(out, ".csv"); !ending.empty())
    throw UsageError(fmt::format("--out {}: imported runs are CSV, not {}", out.string(), ending));
  LabelledRecords rows;
  for (const std::string& path : arguments.positional) {
    LabelledRecords one = read_foreign(path, renaming);
    for (const std::string& note : one.notes) print_note(console, note);
    rows.merge(std::move(one));
  }
  std::ostringstream runs, curves;
  export_runs(runs, rows.rows, ExportFormat::csv, false);
  export_curves(curves, rows.rows, ExportFormat::csv);
  if (!arguments.has("out")) {
    console.out << runs.str();
    return exit_done;
  }
  const bool has_curves =
      std::ranges::any_of(rows.rows, [](const auto& row) { return !row.second.curves.empty(); });
  if (has_curves) {
    fs::path beside = out;
    beside.replace_extension(".curves.csv");
    write_output(beside, curves.str());
    console.out << beside.string() << "\n";
  }
  write_output(out, runs.str());
  console.out << out.string() << "\n";
  return exit_done;
}

}  // namespace

extern const Command import_command = {
    "import",
    "read runs that Weights & Biases or TensorBoard exported as CSV",
    "FILE.csv... --columns OURS=THEIRS[,...] [--set OURS=VALUE]... [--out RUNS.csv]",
    "Writes the runs of a table in the columns of 'crosstalk export', so that plot, table, report and compare read them. Commas,\n"
    "semicolons and tabs separate cells. --columns names what is read, and each by our name: label, seed, status, steps,\n"
    "eval_loss, eval_accuracy, keys of the configuration such as task.pairs, metrics such as test_accuracy. --set says what all\n"
    "rows have and no column does. Runs that are still going are left out.\n\n"
    "A chart of Weights & Biases (columns \"Step\" and \"RUN - METRIC\") and a scalar of TensorBoard (\"Wall time\", \"Step\",\n"
    "\"Value\"; its run is called as the file) hold curves: these go into RUNS.curves.csv, and their ends are the runs' numbers.\n\n"
    "Examples:\n"
    "  crosstalk import wandb.csv --columns label=Name,task.pairs=num_kv_pairs,eval_accuracy=valid/accuracy --out runs.csv\n"
    "  crosstalk import delta.csv --columns eval_accuracy=Value --set task.pairs=16 --out delta_runs.csv\n",
    1,
    -1,
    "needs a table, for example: crosstalk import wandb.csv --columns label=Name,eval_loss=loss,task.pairs=pairs",
    {
        {"columns", "OURS=THEIRS", "Columns to read, by our names and theirs; a comma separates several",
         true},
        {"set", "OURS=VALUE", "What all rows have", true},
        {"out,o", "FILE", "Write there instead of stdout, and print the paths"},
    },
    run_import,
};

}  // namespace crosstalk::program
