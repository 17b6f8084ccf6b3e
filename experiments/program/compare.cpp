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

}  // namespace

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

}  // namespace crosstalk::program
