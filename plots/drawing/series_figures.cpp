// Figures of what a run recorded along an axis: curves (over steps), tracking (over operations), length.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "plots/drawing/groups.h"
#include "results/csv.h"
#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

using SeriesMap = std::map<std::string, Series> Record::*;

const Series* find_series(const Record& record, SeriesMap where, const std::string& name) {
  const auto found = (record.*where).find(name);
  return found == (record.*where).end() || found->second.x.empty() ? nullptr : &found->second;
}

std::string loss_axis(const std::string& split, const FigureInput& input) {
  return split + " loss" + loss_formula(input.records);
}

/// Value at `x` of a series sorted by x. `hold`: between and after its points the last value stands (a run
/// that stopped early keeps what it had reached).
double value_at(const Series& series, double x, bool hold) {
  double value = kNone;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()) && series.x[i] <= x; ++i)
    if (hold || series.x[i] == x) value = series.y[i];
  return value;
}

/// Rows of one line: the median over its runs at every x that one of them has.
void add_series(Drawing& drawing, const RecordLine& line, SeriesMap where, const std::string& name,
                const std::string& label, bool hold, const Groups& groups = {}) {
  std::vector<std::pair<std::string, Series>> all;
  std::set<double> places;
  for (const auto& [unused, records] : line.points) {
    if (mostly_diverged(records)) return;  // what survived is no picture of this memory
    for (const Record* record : drawable(records)) {
      const Series* series = find_series(*record, where, name);
      if (series == nullptr) continue;
      all.emplace_back(seeds_of(*record), grouped(*series, groups));
      places.insert(all.back().second.x.begin(), all.back().second.x.end());
    }
  }
  for (const double x : places) {
    std::vector<double> values;
    SeedValues seeds;
    for (const auto& [seed, series] : all)
      if (const double value = value_at(series, x, hold); std::isfinite(value)) {
        values.push_back(value);
        seeds.push_back({seed, value});
      }
    if (values.empty()) continue;
    const Summary summary = summarise(values);
    drawing.rows.push_back({label, line.d_dot, x, summary.n, summary.median, summary.lo, summary.hi});
    drawing.rows.back().seeds = std::move(seeds);
    drawing.rows.back().solved = name.find("accuracy") != name.npos && summary.median >= kSolvedAccuracy;
  }
}

/// Lines of the records that have the series, all of one line at one place.
std::vector<RecordLine> lines_with(const FigureInput& input, const RecordList& records, SeriesMap where,
                                   const std::string& name) {
  // Diverged and failed runs may have no series; they count all the same if their label has one.
  std::set<std::string> labels;
  for (const Record* record : records)
    if (find_series(*record, where, name) != nullptr) labels.insert(record->label);
  auto lines = make_lines(
      records,
      [&](const Record& record) {
        return labels.count(record.label) != 0 ? std::optional<double>(0) : std::nullopt;
      },
      "");
  sort_lines(lines, input.styles);
  return lines;
}

/// Whether the runs of a line end at different steps.
bool ends_apart(const RecordLine& line, const std::string& name) {
  std::set<double> ends;
  for (const auto& [unused, records] : line.points)
    for (const Record* record : drawable(records))
      if (const Series* series = find_series(*record, &Record::curves, name)) ends.insert(series->x.back());
  return ends.size() > 1;
}

/// A line without rows (all its runs diverged) still needs an entry that the script can read.
void add_empty_rows(Drawing& drawing, const std::vector<RecordLine>& lines) {
  for (const RecordLine& line : lines) {
    const bool has_rows = std::any_of(drawing.rows.begin(), drawing.rows.end(), [&](const FigureRow& row) {
      return row.label == line.label && row.d_dot == line.d_dot;
    });
    if (!has_rows) drawing.rows.push_back({line.label, line.d_dot});
  }
}

std::pair<double, double> x_range(const std::vector<FigureRow>& rows) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const FigureRow& row : rows) {
    if (std::isnan(row.x)) continue;
    low = std::min(low, row.x);
    high = std::max(high, row.x);
  }
  if (low > high) return {0, 1};
  if (low == high) return {low - 1, high + 1};
  return {low, high};
}

void note_published(const FigureInput& input, const char* figure) {
  if (!input.options.published.empty())
    input.notes << fmt::format("published points belong to capacity and updates; {} leaves them out\n",
                               figure);
}

/// The largest load among the records, unless they hold one only or none.
RecordList at_one_load(const FigureInput& input) {
  const char* key = "task.associations";
  std::set<double> loads;
  for (const Record* record : input.records)
    if (const auto load = config_number(*record, key)) loads.insert(*load);
  if (loads.size() < 2) return input.records;
  input.notes << fmt::format(
      "curves: {} numbers of associations; drawn at {} = {} (--where {}=... picks another)\n", loads.size(),
      key, *loads.rbegin(), key);
  RecordList kept;
  for (const Record* record : input.records)
    if (config_number(*record, key) == *loads.rbegin()) kept.push_back(record);
  return kept;
}

/// The task's chance level as a flat line.
void add_chance(Drawing& drawing, const RecordList& records, std::pair<double, double> xlim) {
  std::vector<double> chances;
  for (const Record* record : records)
    if (const auto found = record->metrics.find("chance_accuracy"); found != record->metrics.end())
      chances.push_back(found->second);
  const double chance = median(chances);
  if (!std::isfinite(chance)) return;
  const std::string label = "theory: chance";
  drawing.rows.push_back({label, 0, xlim.first, 0, chance});
  drawing.rows.push_back({label, 0, xlim.second, 0, chance});
  drawing.overlays.push_back({label, 0, "#555555"});
  drawing.overlay_names.emplace_back("theory", "Chance");
}

/// Of tasks whose sequences have one answer each, at their end.
Groups groups_of_lengths(const std::vector<RecordLine>& lines, const std::string& profile) {
  std::vector<const Series*> all;
  for (const RecordLine& line : lines)
    for (const auto& [unused, records] : line.points)
      for (const Record* record : records)
        if (const Series* series = find_series(*record, &Record::profiles, profile)) {
          if (config_text(*record, "task.query_at") != "end") return {};
          all.push_back(series);
        }
  return groups_of(all);
}

}  // namespace

Drawing draw_curves(const FigureInput& input) {
  note_published(input, "curves");
  const std::string name = input.options.metric.empty() ? "eval_loss" : input.options.metric;
  const auto lines = lines_with(input, at_one_load(input), &Record::curves, name);
  if (lines.empty())
    throw std::invalid_argument(fmt::format(
        "curves needs records with a learning curve \"{}\" (eval_loss, eval_accuracy, eval_exact, "
        "train_loss); {}",
        name, what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "step");
  drawing.needs = {"curves." + name};
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, "", input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  for (const RecordLine& line : lines) add_series(drawing, line, &Record::curves, name, line.label, true);
  const bool is_loss = name.ends_with("loss");
  const double threshold = name == "eval_loss" ? threshold_of(input) : kNone;
  set_axes(drawing, "Training step",
           name == "eval_loss"       ? loss_axis("Evaluation", input)
           : name == "train_loss"    ? loss_axis("Training", input)
           : name == "eval_accuracy" ? "Evaluation accuracy"
                                     : name,
           "linear", is_loss ? "log" : "linear", {0, x_range(drawing.rows).second},
           is_loss ? value_range(drawing.rows, true, threshold) : std::pair{-0.02, 1.02});
  if (std::isfinite(threshold)) drawing.figure["solved"] = threshold;
  count_drawn_seeds(drawing, lines);
  if (std::isfinite(threshold) && drawing.figure["ylim"][0].get<double>() <= threshold)
    drawing.footnotes.push_back(fmt::format("Solved: {}.", solved_text(input, {name, "", true})));
  if (std::any_of(lines.begin(), lines.end(), [&](const RecordLine& line) { return ends_apart(line, name); }))
    drawing.footnotes.emplace_back(
        "A run that stopped before the others of its line keeps its last value there.");
  add_empty_rows(drawing, lines);
  return drawing;
}

Drawing draw_tracking(const FigureInput& input) {
  note_published(input, "tracking");
  const bool by_operations =
      std::any_of(input.records.begin(), input.records.end(), [](const Record* record) {
        return find_series(*record, &Record::profiles, "accuracy_by_operations") != nullptr;
      });
  const std::string by = by_operations ? "by_operations" : "by_position";
  const std::string profile = "accuracy_" + by, exact = "exact_" + by;
  const auto lines = lines_with(input, input.records, &Record::profiles, profile);
  if (lines.empty())
    throw std::invalid_argument(
        fmt::format("tracking needs records with a profile accuracy_by_operations or accuracy_by_position "
                    "(tasks swap and words); {}",
                    what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, by_operations ? "operations" : "position");
  drawing.needs = {"profiles." + profile};
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, "", input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  const Groups groups = by_operations ? Groups() : groups_of_lengths(lines, profile);
  std::set<double> trained;
  for (const RecordLine& line : lines) {
    add_series(drawing, line, &Record::profiles, profile, line.label, false, groups);
    for (const auto& [unused, records] : line.points)
      for (const Record* record : records)
        if (const auto length = config_number(*record, by_operations ? "task.operations" : "task.length"))
          trained.insert(*length);
  }
  for (const RecordLine& line : lines) {
    if (groups.width > 0) break;  // an answer has none before it
    const std::string label = "prefix-exact: " + line.label;
    const std::size_t before = drawing.rows.size();
    add_series(drawing, line, &Record::profiles, exact, label, false);
    if (drawing.rows.size() == before) continue;
    drawing.overlays.push_back({label, line.d_dot, input.styles.at(line.label).colour});
    if (drawing.overlay_names.empty())
      drawing.overlay_names.emplace_back("prefix-exact", "Thin: all answers so far correct");
  }
  const auto range = x_range(drawing.rows);
  set_axes(drawing,
           by_operations      ? "Operations before the query"
           : groups.width > 0 ? "Tokens before the answer"
                              : "Position",
           "Accuracy", "linear", "linear", range, {-0.02, 1.02});
  drawing.figure["vertical"] = std::vector<double>(trained.begin(), trained.end());
  drawing.figure["vertical_name"] = "Training length";
  count_drawn_seeds(drawing, lines);
  if (groups.width > 0)
    drawing.footnotes.push_back(fmt::format("Points: sequences of {:g} neighbouring lengths.", groups.width));
  if (input.options.theory) add_chance(drawing, input.records, range);
  add_empty_rows(drawing, lines);
  return drawing;
}

Drawing draw_length(const FigureInput& input) {
  // Of tasks of single tokens the scaled accuracy is drawn: 0 is chance.
  const bool scaled =
      !lines_with(input, input.records, &Record::profiles, "scaled_accuracy_by_length").empty();
  const std::string metric = !input.options.metric.empty() ? input.options.metric
                             : scaled                      ? "scaled_accuracy"
                                                           : "loss";
  const std::string profile = metric + "_by_length";
  const auto lines = lines_with(input, input.records, &Record::profiles, profile);
  if (lines.empty())
    throw std::invalid_argument(fmt::format(
        "length needs records with a profile \"{}\" (eval.length_factors; --metric loss, accuracy, "
        "exact or scaled_accuracy); {}",
        profile, what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "length_factor");
  drawing.needs = {"profiles." + profile};
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, "", input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  for (const RecordLine& line : lines)
    add_series(drawing, line, &Record::profiles, profile, line.label, false);
  if (!input.options.published.empty())
    add_published_points(drawing, lines, input, {metric}, {"task.length"},
                         [](const PublishedPoint& point, const Record& record) {
                           const auto length = point.known.find("task.length");
                           const auto trained = config_number(record, "task.length");
                           return length == point.known.end() || !trained
                                      ? kNone
                                      : number_in(length->second).value_or(kNone) / *trained;
                         });
  auto range = x_range(drawing.rows);
  range = {std::max(range.first, 0.1) / 1.05, range.second * 1.05};
  const bool is_loss = metric == "loss";
  set_axes(drawing, "Length / training length",
           is_loss                       ? loss_axis("Evaluation", input)
           : metric == "scaled_accuracy" ? "Scaled accuracy, last quarter"
           : metric == "exact"           ? "Sequences with every answer right"
                                         : "Accuracy",
           "log2", is_loss ? "log" : "linear", range,
           is_loss ? value_range(drawing.rows, true) : std::pair{-0.02, 1.02});
  count_drawn_seeds(drawing, lines);
  add_empty_rows(drawing, lines);
  return drawing;
}

}  // namespace crosstalk
