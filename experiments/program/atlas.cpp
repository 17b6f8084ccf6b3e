// crosstalk atlas: what every memory can do, as one page, and where one's own stands on it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "experiments/program/endings.h"
#include "models/memory.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

/// Adds the rows of --with, under another label where the atlas has other runs of theirs; the labels that they bring.
std::set<std::string> add_mine(LabelledRecords& rows, const Arguments& arguments, Console& console) {
  const Words names = arguments.all("with");
  if (names.empty()) return {};
  LabelledRecords with = load_rows(names, arguments, console, true);
  std::set<std::string> known, mine;
  for (const auto& [key, record] : rows.rows) known.insert(record.label);
  const auto is_known = [&](const auto& one) { return known.count(one.label) != 0; };
  std::erase_if(with.rows, [&](const auto& row) { return rows.rows.count(row.first) != 0; });
  std::erase_if(with.missing, is_known);
  std::erase_if(with.labels, is_known);
  for (auto& [key, record] : with.rows) {
    if (is_known(record)) record.label += " (yours)";
    mine.insert(record.label);
  }
  if (mine.empty())
    throw UsageError(
        fmt::format("--with: {} has no runs that are not in the atlas already; 'crosstalk run' makes them",
                    places_of(names, arguments)));
  with.title = rows.title;
  rows.merge(std::move(with));
  return mine;
}

std::optional<TableFormat> format_of(const fs::path& out) {
  if (!foreign_ending(out, ".html .htm .csv .tex .md").empty())
    throw UsageError(fmt::format("--out {}: an atlas is a page (.html) or a table (.csv, .tex, .md), not {}",
                                 out.string(), out.extension().string()));
  const std::string ending = out.extension().string();
  if (ending == ".csv") return TableFormat::csv;
  if (ending == ".tex") return TableFormat::latex;
  if (ending == ".md") return TableFormat::markdown;
  return std::nullopt;
}

/// This command again, into a file of another ending.
std::string again(const Arguments& arguments, const fs::path& out, const char* ending) {
  Words words = {"crosstalk", "atlas"};
  words.insert(words.end(), arguments.positional.begin(), arguments.positional.end());
  for (const auto& [name, values] : arguments.options)
    for (const std::string& value : values)
      if (name != "out") words.insert(words.end(), {"--" + name, value});
  words.insert(words.end(), {"--out", fs::path(out).replace_extension(ending).string()});
  return shell_quote(words);
}

int run_atlas(const Arguments& arguments, Console& console) {
  const fs::path out = arguments.get("out", "atlas.html");
  const std::optional<TableFormat> format = format_of(out);
  Arguments given = arguments;
  given.options["best"] = {"train.learning_rate"};  // whose best --best-by chooses
  FigureOptions options = figure_options(given, "atlas");
  options.best.clear();
  options.title.clear();
  LabelledRecords rows = rows_to_draw(arguments.positional, arguments, console);
  ReportInput input;
  input.mine = add_mine(rows, arguments, console);
  input.title = arguments.get("title", rows.title.empty() ? "Atlas of memories" : rows.title);
  for (const TaskKind& task : task_kinds()) input.tasks[task.name] = task.summary;
  input.families = options.memories.families;
  input.study_path = fmt::format("{}.toml", rows.rows.begin()->second.study);
  for (const std::string& name : arguments.positional)
    if (fs::path(name).extension() == ".toml") {
      input.study_path = name;
      input.study_file = find_target(name, arguments).study->text;
      break;
    }
  input.commands = {{"This page", again(arguments, out, ".html")},
                    {"All that is known of its cells, as CSV", again(arguments, out, ".csv")},
                    {"Its table for a paper", again(arguments, out, ".tex")}};
  std::string text;
  with_notes("atlas", console,
             [&](std::ostream& notes) { text = atlas_text(std::move(rows), options, input, format, notes); });
  if (format)
    write_output(out, text);
  else
    write_page(out, text, "atlas");
  console.out << out.string() << "\n";
  return exit_done;
}

}  // namespace

extern const Command atlas_command;
const Command atlas_command = {
    "atlas",
    "write what every memory can do as one page, with yours among them",
    "STORE|STUDY.toml|RUNS.csv... [--with YOURS]... [--out atlas.html] [OPTIONS]",
    "Writes a table of memories by settings of tasks as one HTML file that needs nothing else: each cell's\n"
    "median over seeds at its best learning rate, with interval, verdict, window of rates, time of a step,\n"
    "state and parameters. It sorts and filters; a cell shows its curves and the command that trains it.\n"
    "Below: any setting against the size of the state, with the front, and which settings rank memories\n"
    "alike. Cells at chance are no results; those whose best rate lies at the edge of its grid, and missing\n"
    "ones, say so. Runs of a label in the layer of its authors and bare are two rows.\n\n"
    "--with adds runs of your own memory, trained at the same settings, and says in each where it stands,\n"
    "with differences to its neighbours by the same seeds. --out NAME.csv, .tex or .md writes a table\n"
    "instead: CSV has all that is known of every cell. docs/atlas.md trains a memory of yours for it.\n\n"
    "Examples:\n"
    "  crosstalk atlas runs/atlas\n"
    "  crosstalk atlas runs/atlas --with mine.toml --out mine.html\n"
    "  crosstalk atlas runs/atlas --where model.layer=published --out atlas.csv\n",
    1,
    -1,
    "needs a store or a study, for example: crosstalk atlas runs/atlas",
    [] {
      std::vector<CommandOption> options = {
          {"out,o", "FILE", "Write there and print the path (default atlas.html); .csv, .tex, .md: a table"},
          {"with", "TARGET", "Store, study or table of your own memory", true},
          {"title", "TEXT", "Heading of the page (default: the study's title)"},
          choice_of("best-by", "WHAT", "What chooses the rate: loss (default) or accuracy, of validation",
                    {"loss", "accuracy"}),
          {"metric", "NAME",
           "What to show of every setting (default: accuracy of token tasks, loss of others)"}};
      for (const CommandOption& option : drawing_options())
        for (const char* name : {"by", "titles", "where", "store", "set"})
          if (option.name == name) options.push_back(option);
      return options;
    }(),
    run_atlas,
};

}  // namespace crosstalk::program
