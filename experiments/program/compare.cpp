// crosstalk compare: our seeds beside published numbers.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/common/exit_codes.h"
#include "experiments/common/stores.h"
#include "experiments/program/replayed.h"
#include "results/replay/replay.h"

namespace crosstalk::program {
namespace {

ReplayOptions options_of(const Arguments& arguments, const std::map<std::string, Record>& records) {
  ReplayOptions options;
  options.allowed = keys_of(arguments, "allow");
  options.best = keys_of(arguments, "best");
  options.best_by = best_by_of(arguments);
  for (const std::string& key : options.best) check_key(list_of(records), "--best", key);
  check_varies(list_of(records), options.best);
  for (const std::string& key : options.allowed)
    if (const std::string wrong = unknown_to_all(key, list_of(records)); !wrong.empty())
      throw UsageError(fmt::format("--allow {}: {}", key, wrong));
  if (arguments.has("figure")) options.figure = read_figure(arguments.get("figure"));
  return options;
}

nlohmann::json json_of(const std::vector<Comparison>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const Comparison& row : rows) {
    nlohmann::json otherwise = nlohmann::json::array();
    for (const Otherwise& one : row.otherwise)
      otherwise.push_back(
          {{"study", one.study}, {"key", one.key}, {"ours", one.ours}, {"theirs", one.theirs}});
    list.push_back({{"label", row.published.label},
                    {"setting", row.published.setting},
                    {"associations", row.published.associations},
                    {"known", row.published.known},
                    {"metric", row.metric},
                    {"ours_metric", row.read},
                    {"published", row.value},
                    {"lowest", row.lowest},
                    {"median", row.median},
                    {"highest", row.highest},
                    {"seeds", row.seeds},
                    {"median_steps", row.steps},
                    {"best", row.chosen},
                    {"deviations", row.deviations},
                    {"otherwise", otherwise},
                    {"trained_otherwise", row.trained_otherwise},
                    {"guess_agrees", row.guess_agrees ? nlohmann::json(*row.guess_agrees) : nlohmann::json()},
                    {"perfect_agrees", row.perfect_agrees},
                    {"agrees", row.agrees}});
  }
  return list;
}

std::vector<std::vector<Otherwise>> otherwise_of(const std::vector<Comparison>& rows) {
  std::vector<std::vector<Otherwise>> lists;
  for (const Comparison& row : rows) lists.push_back(row.otherwise);
  return lists;
}

RecordList runs_of(const std::vector<Comparison>& rows) {
  RecordList runs;
  for (const Comparison& row : rows) runs.insert(runs.end(), row.runs.begin(), row.runs.end());
  return runs;
}

int run_compare(const Arguments& arguments, Console& console) {
  const LabelledRecords rows_of_all = load_rows(arguments.positional, arguments, console);
  const std::map<std::string, Record>& records = rows_of_all.rows;
  ReplayOptions options = options_of(arguments, records);
  std::vector<PublishedPoint> points;
  try {
    points = arguments.has("published") ? read_published(arguments.get("published")) : default_published();
    options.studies = replayed_studies(points);
    check_columns(points, list_of(records));
  } catch (const std::invalid_argument& error) {
    throw UsageError(std::string("--published: ") + error.what());
  }
  if (arguments.has("metric")) check_metric(points, arguments.get("metric"));
  const std::vector<Comparison> all = compare(points, records, options);
  std::vector<Comparison> rows = all;
  std::vector<std::string> sources;
  for (const std::string& name : arguments.positional)
    for (const std::string& line : provenance_of(name)) sources.push_back(line);
  const std::vector<std::string> alone = without_runs(points, records, options, rows);
  const bool unmeasured = std::ranges::any_of(
      alone, [](const std::string& line) { return line.find("have runs here") != std::string::npos; });
  if (rows.empty() && unmeasured) {
    console.out << (arguments.has("json")
                        ? "[]\n"
                        : fmt::format("No point is compared: {}.\n", fmt::join(alone, "; ")));
    return exit_done;
  }
  if (rows.empty()) {
    std::string text =
        "compare: no run of these is one of the published runs (all that is known of them must agree; --allow KEY says what may differ)";
    for (const std::string& line : alone) text += "\n" + line;
    throw UsageError(text);
  }
  const auto agreeing = std::ranges::count_if(rows, &Comparison::agrees);
  if (arguments.has("outside")) std::erase_if(rows, [](const Comparison& row) { return row.agrees; });
  const auto foreign = std::ranges::count_if(rows, &Comparison::trained_otherwise);
  const auto& head = points.front().head;
  const std::string by = all.front().metric, beside = head ? head->beside : "";
  const std::string said = fmt::format(
      "{} of {} points agree{} ({}{}{}){}", agreeing, all.size(), by.starts_with("test_") ? " by " + by : "",
      power_text(all), beside.empty() ? "" : "; ", beside,
      foreign == 0
          ? ""
          : fmt::format(
                ", {} cannot: trained otherwise than the study that replays {} (--allow KEY,KEY where that is meant)",
                foreign, foreign == 1 ? "it" : "them"));
  if (arguments.has("json")) {
    console.out << json_of(rows).dump(1) << "\n";
    print_note(console, said);
  } else {
    if (!rows.empty()) console.out << comparison_table(rows) << "\n";
    console.out << said << ".";
    if (const auto deviations = deviations_of(rows); !deviations.empty())
      console.out << fmt::format(" Otherwise than published: {}.", fmt::join(deviations, "; "));
    if (const std::string unread = not_compared(all); !unread.empty()) console.out << " " << unread;
    if (const std::string edges = edges_of(rows); !edges.empty()) console.out << " " << edges;
    for (const std::string& sentence : otherwise_text(otherwise_of(rows))) console.out << " " << sentence;
    if (const std::string trained = trained_text(runs_of(all)); !trained.empty())
      console.out << " " << trained;
    if (!sources.empty()) console.out << fmt::format(" Runs: {}.", fmt::join(sources, "; "));
    console.out << "\n";
    if (head && !head->comments.empty())
      console.out << fmt::format("\nOf the published numbers: {}\n", fmt::join(head->comments, " "));
  }
  for (const std::string& line : alone) print_note(console, line);
  return exit_done;
}

}  // namespace

extern const Command compare_command = {
    "compare",
    "compare results with published numbers",
    "STORE|STUDY.toml|RUNS.csv... [--published CSV] [--allow KEY]... [--best KEY] [--json]",
    "Prints one row for each published point of which the stores have runs: the published number, the\n"
    "lowest, the median and the highest of our seeds, and whether they agree. The column 'agreement' of\n"
    "the published file says when they do; without it, losses agree where the median is within 10 % or\n"
    "0.01 (where the published run is solved, ours must be), accuracies where the median is within 0.02\n"
    "or the published one lies in the range of our seeds. A run matches a point if everything that is\n"
    "known of the published run agrees: task, sizes, memory, optimiser, protocol. --allow names keys that\n"
    "may differ; a sentence below the table lists how they do, another one keys that no run here has.\n"
    "Accuracies of ours are those of the test split, where runs have one. Runs are held against the study that\n"
    "replays the published file, too (its head names it): what they do otherwise stands below, and a\n"
    "point agrees only where --allow names all of it. Points are pooled over seeds alone. A note counts\n"
    "the points without a run. The literature's numbers come with the program; --published takes others\n"
    "('crosstalk describe published-csv'). An export with NAME.provenance.csv beside it tells commit,\n"
    "device and time.\n\n"
    "Examples:\n"
    "  crosstalk compare runs/schlag2021_capacity\n"
    "  crosstalk compare runs/schlag2021_capacity runs/schlag2021_updates --json\n"
    "  crosstalk compare runs/words --published results/published/literature/complex_kda2026_words.csv \\\n"
    "      --allow train.max_steps,train.batch\n",
    1,
    1000,
    "needs a store, for example: crosstalk compare runs/schlag2021_capacity",
    {
        {"published", "CSV", "Published points (default: Schlag, Irie, Schmidhuber 2021)"},
        {"allow", "KEY", "A key in which runs may differ from the published ones; KEY may be A,B", true},
        {"best", "KEY", "Take the best value of a key, such as train.learning_rate, on validation data",
         true},
        {"best-by", "METRIC", "What is best: loss (default) or accuracy", false, {"loss", "accuracy"}},
        {"metric", "NAME", "What the published file was measured by (a column of it); any other is refused"},
        {"figure", "CSV",
         "Medians and ranges by length that 'plot length' wrote of these runs, where the runs themselves are exports without profiles"},
        {"outside", "", "Rows that do not agree only"},
        {"json", "", "JSON instead of a Markdown table"},
        where_option(),
        store_option(),
        study_options()[0],
    },
    run_compare,
};

}  // namespace crosstalk::program
