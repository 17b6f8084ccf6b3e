// Figures of final loss against associations: capacity (rank bounds behind) and updates (sum-rule floor
// behind).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "results/numbers/theory.h"

namespace crosstalk {
namespace {

void add_final_values(Drawing& drawing, const std::vector<RecordLine>& lines, const Metric& metric) {
  for (const RecordLine& line : lines)
    for (const auto& [load, records] : line.points)
      drawing.rows.push_back(row_of(line, load, records, metric));
}

std::set<double> loads_of(const std::vector<RecordLine>& lines) {
  std::set<double> loads;
  for (const RecordLine& line : lines)
    for (const auto& [load, records] : line.points) loads.insert(load);
  return loads;
}

/// The bound of each memory that has one, within the loads of its own records: from where it leaves zero, and
/// on recall at whole loads between, for a smooth line.
void add_rank_bounds(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input) {
  bool any = false, expected = false;
  for (const RecordLine& line : lines) {
    const Record& record = *line.points.begin()->second.front();
    if (!rank_bound(record, input.options.memories)) continue;
    const double first = line.points.begin()->first, last = line.points.rbegin()->first;
    std::set<double> places;
    for (const auto& [load, records] : line.points) places.insert(load);
    if (config_text(record, "task.name") == "recall")
      for (int i = 0; i <= 80; ++i) places.insert(std::round(first + (last - first) * i / 80));
    const auto d_dot = static_cast<double>(line.d_dot);
    if (d_dot > first && d_dot < last) places.insert(d_dot);
    const std::string label = "theory: rank bound, " + line.label;
    std::vector<FigureRow> rows;
    for (const double load : places) {
      const double bound = rank_bound_at(record, load, input.options.memories).value_or(0);
      if (bound <= 0 && !rows.empty() && rows.back().median <= 0) rows.clear();  // zero says nothing
      rows.push_back({label, line.d_dot, load, 0, bound});
    }
    if (rows.back().median <= 0) continue;  // it is zero at all of these loads
    drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
    drawing.overlays.push_back({label, line.d_dot, input.styles.at(line.label).colour});
    any = true;
    expected = expected || config_text(record, "task.name") == "reassign";  // values coincide by chance
  }
  if (any) drawing.overlay_names.emplace_back("theory", expected ? "Theory: rank" : "Theory: rank bound");
  if (expected)
    drawing.footnotes.emplace_back(
        "Theory: the smallest loss of a read-out of rank $d_{\\mathrm{dot}}$, expected over all data; a run "
        "may "
        "lie on either side.");
}

/// What the best answer without the order of writes costs on the sequences of these runs; the median over
/// seeds, as the lines are. Nothing where one of them is not known.
std::optional<double> evaluated_floor(const RecordList& records, const FigureInput& input,
                                      const Metric& metric) {
  std::vector<double> floors;
  for (const Record* record : results_of(records)) {
    const auto floor = input.options.evaluated_floor ? input.options.evaluated_floor(*record, metric.name)
                                                     : std::optional<double>();
    if (!floor) return std::nullopt;
    floors.push_back(*floor);
  }
  return floors.empty() ? std::nullopt : std::optional(median(floors));
}

/// One line for each setting among the memories that do not see the order of writes: it does not depend on
/// the memory, but on lengths and values.
void add_sum_rule_floor(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                        const Metric& metric) {
  std::map<std::vector<double>, std::string> known;
  bool any_evaluated = false, any_expected = false;
  for (const RecordLine& line : lines) {
    std::vector<double> floors, of_these_runs;
    for (const auto& [load, records] : line.points) {
      if (const auto floor = sum_rule_floor(*records.front(), input.options.memories))
        floors.insert(floors.end(), {load, *floor});
      if (const auto floor = evaluated_floor(records, input, metric))
        of_these_runs.insert(of_these_runs.end(), {load, *floor});
    }
    const bool evaluated = of_these_runs.size() == floors.size();
    if (evaluated) floors = of_these_runs;
    if (floors.empty() || known.count(floors) != 0) continue;
    (evaluated ? any_evaluated : any_expected) = true;
    const std::string label =
        known.empty() ? "theory: sum-rule floor" : "theory: sum-rule floor, " + line.label;
    known[floors] = label;
    for (std::size_t i = 0; i < floors.size(); i += 2)
      drawing.rows.push_back({label, 0, floors[i], 0, floors[i + 1]});
    drawing.overlays.push_back({label, 0, "#555555"});
  }
  if (known.empty()) {
    input.notes << "theory: the sum rule's floor binds memories that do not see the order of writes (as "
                   "linear_attention "
                   "and softmax) on task reassign; there are none here, and nothing is drawn behind\n";
    return;
  }
  drawing.overlay_names.emplace_back("theory", "Theory: best answer without order");
  if (any_evaluated)
    drawing.footnotes.emplace_back(
        "Theory: the mean of the values written to a key, on the sequences of these runs.");
  if (any_expected)
    drawing.footnotes.emplace_back(
        "Theory: the mean of the values written to a key, expected over all data; a run may lie on either "
        "side.");
}

void finish(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
            const Metric& metric, bool log) {
  const double threshold = metric.is_loss && metric.name != "steps" ? threshold_of(input) : kNone;
  const std::set<double> loads = loads_of(lines);
  // One load alone would otherwise stand on the frame.
  const double margin = std::max(0.02 * *loads.rbegin(), loads.size() == 1 ? 1.0 : 0.0);
  std::vector<FigureRow> visible;  // published points may lie at larger loads than the records
  std::copy_if(drawing.rows.begin(), drawing.rows.end(), std::back_inserter(visible),
               [&](const FigureRow& row) { return row.x <= *loads.rbegin() + margin; });
  log = log && metric.is_loss;
  auto [low, high] = value_range(visible, log, threshold);
  if (!metric.is_loss) low = -0.02, high = std::max(1.02, high > 1.02 ? high : 0);
  set_axes(drawing, "Associations $S$", metric.axis, "linear", log ? "log" : "linear",
           {0, *loads.rbegin() + margin}, {low, high});
  if (std::isfinite(threshold)) drawing.figure["solved"] = threshold;
  count_drawn_seeds(drawing, lines);
  if (std::isfinite(threshold))
    drawing.footnotes.push_back(fmt::format("Solved: {}{}.", solved_text(input, metric),
                                            log ? "; what is below the axis stands on it" : ""));
}

Drawing draw_loads(const FigureInput& input, const char* figure, bool always_d_dot, bool log) {
  const auto lines = lines_over_loads(input, figure);
  const Metric metric = metric_of(input);
  const bool is_loss = metric.name == "eval_loss" || metric.name == "test_loss";
  // A legend that says d_key = 8 of each line need not say d_dot too, which the axis marks.
  const std::vector<std::string>& by = input.options.by;
  const bool by_size = std::any_of(
      by.begin(), by.end(), [](const std::string& key) { return key == "model.d_key" || key == "d_dot"; });
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "associations");
  drawing.needs = {kLoad};
  drawing.metric = metric.name;
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);
  add_legend(drawing, lines, input.styles, expected, always_d_dot && !by_size);
  add_final_values(drawing, lines, metric);
  if (input.options.theory && is_loss) {
    if (always_d_dot)
      add_rank_bounds(drawing, lines, input);
    else
      add_sum_rule_floor(drawing, lines, input, metric);
  }
  if (!input.options.published.empty()) {
    if (is_loss)
      add_published(drawing, lines, input.styles, input);
    else
      input.notes << "published points are losses; left out\n";
  }
  finish(drawing, lines, input, metric, log);
  drawing.figure["ticks_at_d_dot"] =
      always_d_dot && is_loss &&
      std::any_of(lines.begin(), lines.end(), [](const RecordLine& line) { return line.d_dot > 0; });
  return drawing;
}

}  // namespace

Drawing draw_capacity(const FigureInput& input) { return draw_loads(input, "capacity", true, false); }

Drawing draw_updates(const FigureInput& input) { return draw_loads(input, "updates", false, true); }

}  // namespace crosstalk
