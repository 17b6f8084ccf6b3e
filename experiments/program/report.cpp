// crosstalk report: a study as one page that goes by mail.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/common/text.h"
#include "experiments/program/draw.h"
#include "experiments/program/endings.h"
#include "kernels/base/text/options.h"
#include "plots/figure.h"
#include "results/store/live.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

namespace fs = std::filesystem;

using Words = std::vector<std::string>;

/// Options that rows and figures are chosen by, as they were given.
void add_given(Words& words, const Arguments& arguments, const Words& names) {
  for (const std::string& name : names)
    for (const std::string& value : arguments.all(name)) {
      words.push_back("--" + name);
      if (!value.empty()) words.push_back(value);
    }
}

void add_option(Words& words, const std::string& name, const std::string& value) {
  if (value.empty()) return;
  words.push_back("--" + name);
  words.push_back(value);
}

/// "crosstalk plot capacity runs/a --best train.learning_rate --out figures/capacity".
std::string command_of(const Arguments& arguments, const std::string& command, const std::string& name,
                       const FigureOptions& options) {
  Words words = {"crosstalk", command, name};
  words.insert(words.end(), arguments.positional.begin(), arguments.positional.end());
  for (const auto& [key, value] : options.where) add_option(words, "where", key + "=" + value);
  add_option(words, "best", join(options.best, ","));
  add_option(words, "by", join(options.by, ","));
  if (command == "plot") add_option(words, "facet", options.facet);
  add_option(words, "x", options.x);
  add_option(words, "against", options.against);
  add_option(words, "metric", options.metric);
  Words given = {"best-by", "threshold", "titles", "seeds", "store", "set"};
  if (command == "plot") given.insert(given.end(), {"log", "published", "no-theory"});
  add_given(words, arguments, given);
  const auto task = options.where.find("task.name");
  const std::string path = name + (task == options.where.end() ? "" : "_" + task->second);
  add_option(words, "out", command == "plot" ? "figures/" + path : path + ".tex");
  return shell_quote(words);
}

std::vector<std::pair<std::string, std::string>> commands_of(const Arguments& arguments,
                                                             const fs::path& out) {
  const auto with_targets = [&](Words words, Words names, Words rest) {
    words.insert(words.end(), arguments.positional.begin(), arguments.positional.end());
    add_given(words, arguments, names);
    words.insert(words.end(), rest.begin(), rest.end());
    return shell_quote(words);
  };
  std::vector<std::pair<std::string, std::string>> commands;
  for (const std::string& name : arguments.positional) {
    if (fs::path(name).extension() != ".toml") continue;
    Words run = {"crosstalk", "run", name};
    add_given(run, arguments, {"set"});
    if (arguments.has("store")) add_option(run, "out", arguments.get("store"));
    commands.emplace_back("Train what is missing", shell_quote(run));
  }
  commands.emplace_back(
      "Every run with its whole configuration, as CSV",
      with_targets({"crosstalk", "export"}, {"where", "store", "set"}, {"--out", "runs.csv"}));
  commands.emplace_back("This page", with_targets({"crosstalk", "report"},
                                                  {"figure", "facet", "by", "best", "best-by", "metric",
                                                   "against", "threshold", "published", "titles", "seeds",
                                                   "where", "store", "set", "log", "no-theory", "title"},
                                                  {"--out", out.string()}));
  return commands;
}

/// The runs that train now into the stores of these targets; none where only some records are asked for.
std::map<std::string, Record> training_of(const Arguments& arguments) {
  std::map<std::string, Record> training;
  if (arguments.has("where")) return training;
  for (const std::string& name : arguments.positional) {
    if (fs::path(name).extension() == ".csv") continue;
    const fs::path store = find_target(name, arguments).store;
    const std::map<std::string, LiveRun> live = live_runs(store);
    if (live.empty()) continue;
    const StoreHeads heads = read_heads(store);
    for (const auto& [id, run] : live) {
      if (heads.contents.records.count(id) != 0) continue;
      Record& record = training[id];
      record.label = run.label;
      record.seed = run.seed;
      record.curves = run.curves;
      for (const auto& [metric, curve] : run.curves) record.steps = static_cast<std::int64_t>(curve.x.back());
    }
  }
  return training;
}

int run_report(const Arguments& arguments, Console& console) {
  if (const std::string ending = foreign_ending(fs::path(arguments.get("out")), ".html .htm");
      !ending.empty())
    throw UsageError(
        fmt::format("--out {}: a report is HTML, not {}; name it .html (a browser prints it as PDF)",
                    arguments.get("out"), ending));
  const std::string name = arguments.get("figure");
  FigureOptions options = figure_options(arguments, name.empty() ? "report" : name);
  ReportInput input;
  input.training = training_of(arguments);
  const LabelledRecords rows = input.training.empty()
                                   ? rows_to_draw(arguments.positional, arguments, console)
                                   : load_rows(arguments.positional, arguments, console, true);
  input.figure = name;
  if (arguments.positional.size() == 1 && fs::path(arguments.positional[0]).extension() == ".toml") {
    const Study study = *find_target(arguments.positional[0], arguments).study;
    input.study_file = study.text;
    input.title = study.title.empty() ? study.name : study.title;
    if (!arguments.has("where"))
      for (const Run& run : study.runs) input.asked += static_cast<std::int64_t>(run.labels.size());
  }
  if (arguments.has("titles")) input.title = study_named(arguments.get("titles")).title;
  if (!rows.title.empty()) input.title = rows.title;
  if (arguments.has("title")) input.title = arguments.get("title");
  options.title.clear();
  if (input.title.empty())
    input.title = fmt::format("Study {}", rows.rows.empty() || rows.rows.begin()->second.study.empty()
                                              ? fs::path(arguments.positional[0]).filename().string()
                                              : rows.rows.begin()->second.study);
  for (const TaskKind& task : task_kinds()) input.tasks[task.name] = task.summary;
  const fs::path out = arguments.get("out", "report.html");
  input.command = [&](const std::string& command, const std::string& figure, const FigureOptions& own) {
    return command_of(arguments, command, figure, own);
  };
  input.commands = commands_of(arguments, out);
  std::string page;
  with_notes("report", console,
             [&](std::ostream& notes) { page = report_page(rows, options, input, notes); });
  write_page(out, page, "report");
  console.out << out.string() << "\n";
  return exit_done;
}

}  // namespace

extern const Command report_command = {
    "report",
    "write a study as one page, to be sent",
    "STORE|STUDY.toml|RUNS.csv... [--out page.html] [OPTIONS]",
    "Writes one HTML file that needs nothing else, neither a network nor this program: which label is ahead of\n"
    "--against (the first) and where, by paired differences, or that nothing is told; what the study asked, figures, the best learning rates with a warning where they lie at the edge of their grid,\n"
    "a table of all runs that sorts, filters and shows learning curves, where and by what the runs\n"
    "were trained, and the commands that make each figure. Numbers are copied as CSV and LaTeX. It is\n"
    "read by keyboard and screen reader, and it prints. 1,000 runs are less than 3 MB. While a study trains,\n"
    "the page has the curves of its running runs too.\n\n"
    "Figures are those that suit the records; --figure NAME draws that one. Learning rates that differ\n"
    "are chosen as by --best, other keys that differ are panels and lines, as by --facet and --by.\n"
    "The same records give the same bytes.\n\n"
    "Examples:\n"
    "  crosstalk report runs/quickstart\n"
    "  crosstalk report my.toml --out my.html\n"
    "  crosstalk report runs/a runs/b --figure updates --by memory.beta_max --where status=done\n",
    1,
    -1,
    "needs a store or a study, for example: crosstalk report runs/quickstart",
    joined({{
                {"out,o", "FILE", "Write there and print the path (default report.html)"},
                {"figure", "NAME", "Draw this figure alone ('crosstalk list figures')", false,
                 names_of(figure_kinds())},
                {"title", "TEXT", "Heading of the page (default: the study's title)"},
                {"facet", "KEY", "A panel for each value of KEY"},
                {"x", "KEY", "Key on the axis of 'accuracy' (default: the one that varies)"},
                {"log", "AXIS", "A logarithmic axis: x or y", true, {"x", "y"}},
                {"no-theory", "", "Leave out bounds and floors"},
            },
            drawing_options()}),
    run_report,
};

}  // namespace crosstalk::program
