// Lines over what runs recorded along an axis: curves (over steps), profiles (over operations, lengths).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plots/drawing/drawing.h"
#include "results/numbers/verdict.h"

namespace crosstalk {

const Series* find_series(const Record& record, SeriesMap where, const std::string& name) {
  const auto found = (record.*where).find(name);
  return found == (record.*where).end() || found->second.x.empty() ? nullptr : &found->second;
}

std::string loss_axis(const std::string& split, const FigureInput& input) {
  return split + " loss" + loss_formula(input.records);
}

namespace {
/// Value at `x` of a series sorted by x. `hold`: between and after its points the last value stands (a run
/// that stopped early keeps what it had reached).
double value_at(const Series& series, double x, bool hold) {
  double value = kNone;
  for (std::size_t i = 0; i < std::min(series.x.size(), series.y.size()) && series.x[i] <= x; ++i)
    if (hold || series.x[i] == x) value = series.y[i];
  return value;
}

}  // namespace

void add_series(Drawing& drawing, const RecordLine& line, SeriesMap where, const std::string& name,
                const std::string& label, bool hold, const Groups& groups) {
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

void add_empty_rows(Drawing& drawing, const std::vector<RecordLine>& lines) {
  for (const RecordLine& line : lines) {
    const bool has_rows = std::ranges::any_of(drawing.rows, [&](const FigureRow& row) {
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

void add_overlay(Drawing& drawing, const Overlay& overlay) {
  if (std::ranges::find(drawing.overlays, overlay.label, &Overlay::label) == drawing.overlays.end())
    drawing.overlays.push_back(overlay);
}

void add_level(Drawing& drawing, const std::string& what, const std::string& name, double level,
               std::pair<double, double> xlim) {
  const std::string label = "theory: " + what;
  for (const double x : {xlim.first, xlim.second}) drawing.rows.push_back({label, 0, x, 0, level});
  drawing.overlays.push_back({label, 0, "#555555"});
  drawing.overlay_names.emplace_back("theory", name);
}

int begin_lines(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                const std::string& x_name, bool always_d_dot) {
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, x_name, input.notes);
  add_legend(drawing, lines, input.styles, expected, always_d_dot);
  return expected;
}

SizeAxis size_axis(double first, double last, double margin_of_one) {
  if (first > 0 && last >= 4 * first) return {first >= 1 ? "log2" : "log", {first / 1.15, last * 1.15}};
  const double margin = first != last ? 0.03 * (last - first) : margin_of_one;
  return {"linear", {first - margin, last + margin}};
}

void note_published(const FigureInput& input, const char* figure) {
  if (!input.options.published.empty())
    input.notes << fmt::format("published points belong to capacity and updates; {} leaves them out\n",
                               figure);
}

}  // namespace crosstalk
