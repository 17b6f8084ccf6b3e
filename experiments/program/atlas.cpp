// crosstalk atlas: what every memory can do, as one page, and where one's own stands on it.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

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

std::set<std::string> labels_of(const LabelledRecords& rows) {
  std::set<std::string> labels;
  for (const auto& [key, record] : rows.rows) labels.insert(record.label);
  for (const Record& record : rows.missing) labels.insert(record.label);
  return labels;
}

/// Adds the rows of --with; the labels that they bring.
std::set<std::string> add_mine(LabelledRecords& rows, const Arguments& arguments, Console& console) {
  const Words names = arguments.all("with");
  if (names.empty()) return {};
  LabelledRecords with = load_rows(names, arguments, console, true);
  if (with.rows.empty())
    throw UsageError(
        fmt::format("--with: no records in {}; 'crosstalk run' makes them", places_of(names, arguments)));
  const std::set<std::string> known = labels_of(rows);
  std::set<std::string> mine = labels_of(with);
  for (const auto& [key, record] : with.rows)
    if (known.count(record.label) != 0 && rows.rows.count(key) == 0)
      throw UsageError(fmt::format(
          "--with {}: the atlas has other runs of the label {}; give yours another ([memories.NAME] of its study)",
          join(names, ", "), record.label));
  std::erase_if(mine, [&](const std::string& label) { return known.count(label) != 0; });
  if (mine.empty())
    throw UsageError(fmt::format("--with {}: all its runs stand in the atlas already", join(names, ", ")));
  const std::string title = rows.title;
  rows.merge(std::move(with));
  rows.title = title;
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

/// This command again, into another file.
std::string again(const Arguments& arguments, const std::string& command, const std::string& out) {
  Words words = {"crosstalk", command};
  words.insert(words.end(), arguments.positional.begin(), arguments.positional.end());
  Words options = {"store", "set", "where"};
  if (command == "atlas") options.insert(options.end(), {"with", "by", "best-by", "metric", "titles", "title"});
  for (const std::string& name : options)
    for (const std::string& value : arguments.all(name)) words.insert(words.end(), {"--" + name, value});
  words.insert(words.end(), {"--out", out});
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
  for (const Memory& memory : all_memories()) input.families[memory.name] = title_of(memory.family);
  input.study_path = fmt::format("{}.toml", rows.rows.begin()->second.study);
  for (const std::string& name : arguments.positional)
    if (fs::path(name).extension() == ".toml") {
      input.study_path = name;
      input.study_file = find_target(name, arguments).study->text;
      break;
    }
  const std::string stem = (out.parent_path() / out.stem()).string();
  input.commands = {{"This page", again(arguments, "atlas", out.string())},
                    {"All that is known of its cells, as CSV", again(arguments, "atlas", stem + ".csv")},
                    {"Its table for a paper", again(arguments, "atlas", stem + ".tex")},
                    {"Every run with its whole configuration", again(arguments, "export", "runs.csv")}};
  std::ostringstream notes;
  std::string text, wrong;
  try {
    text = atlas_text(std::move(rows), options, input, format, notes);
  } catch (const std::invalid_argument& problem) {
    wrong = problem.what();
  }
  if (const std::string said = notes.str(); !said.empty())
    print_plain(console, said.substr(0, said.find_last_not_of('\n') + 1));
  if (!wrong.empty()) throw UsageError(fmt::format("atlas: {}", wrong));
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
          {"out,o", "FILE", "Write there and print the path (default atlas.html); .csv, .tex, .md: a table", false, {}},
          {"with", "TARGET", "Store, study or table of your own memory", true, {}},
          {"title", "TEXT", "Heading of the page (default: the study's title)", false, {}},
          {"best-by", "WHAT", "What chooses the rate: loss (default) or accuracy, of validation", false, {"loss", "accuracy"}},
          {"metric", "NAME", "What to show of every setting (default: accuracy of token tasks, loss of others)", false, {}}};
      for (const CommandOption& option : drawing_options())
        for (const char* name : {"by", "titles", "where", "store", "set"})
          if (option.name == name) options.push_back(option);
      return options;
    }(),
    run_atlas,
};

}  // namespace crosstalk::program
