// Figures of final loss against associations: capacity (rank bound behind) and updates (sum-rule floor
// behind). SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "plots/drawing.h"

namespace crosstalk {
namespace {

constexpr const char* kLoad = "task.associations";

std::vector<RecordLine> lines_over_loads(const FigureInput& input, const char* figure) {
  auto lines = make_lines(
      input.records, [](const Record& record) { return config_number(record, kLoad); }, kLoad);
  if (lines.empty())
    throw std::invalid_argument(fmt::format("{} needs records with {} (tasks recall and reassign); {}",
                                            figure, kLoad, what_they_are(input.records)));
  sort_lines(lines, input.styles);
  return lines;
}

void add_final_losses(Drawing& drawing, const std::vector<RecordLine>& lines) {
  for (const RecordLine& line : lines) {
    for (const auto& [load, records] : line.points) {
      std::vector<double> losses;
      for (const Record* record : drawable(records)) losses.push_back(record->eval_loss);
      FigureRow row{line.label, line.d_dot, load, 0};
      if (!losses.empty()) {
        const Summary summary = summarise(losses);
        row.n = summary.n;
        row.median = summary.median;
        row.lo = summary.lo;
        row.hi = summary.hi;
      }
      drawing.rows.push_back(row);
    }
  }
}

std::set<double> loads_of(const std::vector<RecordLine>& lines) {
  std::set<double> loads;
  for (const RecordLine& line : lines)
    for (const auto& [load, records] : line.points) loads.insert(load);
  return loads;
}

/// The bound of each memory at the loads, at d_dot (where it leaves zero) and between, for a smooth line.
void add_rank_bounds(Drawing& drawing, const std::vector<RecordLine>& lines,
                     const std::map<std::string, LabelStyle>& styles) {
  const std::set<double> loads = loads_of(lines);
  const double first = *loads.begin(), last = *loads.rbegin();
  std::set<double> grid = loads;
  for (int i = 0; i <= 80; ++i) grid.insert(std::round(first + (last - first) * i / 80));
  bool any = false;
  for (const RecordLine& line : lines) {
    if (line.d_dot <= 0) continue;
    const auto d_dot = static_cast<double>(line.d_dot);
    std::set<double> places = grid;
    if (d_dot > first && d_dot < last) places.insert(d_dot);
    const std::string label = "theory: rank bound, " + line.label;
    for (const double load : places)
      drawing.rows.push_back({label, line.d_dot, load, 0, rank_bound(d_dot, load)});
    drawing.overlays.emplace_back(python_key(label, line.d_dot), python_text(styles.at(line.label).colour));
    any = true;
  }
  if (any) drawing.overlay_names.emplace_back(python_text("theory"), python_text("Theory: rank bound"));
}

/// The floor depends on the task alone; records carry it.
void add_sum_rule_floor(Drawing& drawing, const RecordList& records, std::ostream& notes) {
  std::map<double, std::vector<double>> floors;
  for (const Record* record : records) {
    const auto load = config_number(*record, kLoad);
    const auto metric = record->metrics.find("sum_rule_floor");
    if (load && metric != record->metrics.end() && std::isfinite(metric->second))
      floors[*load].push_back(metric->second);
  }
  if (floors.empty()) {
    notes << "theory: the records carry no sum_rule_floor (task reassign does); nothing drawn behind\n";
    return;
  }
  const std::string label = "theory: sum-rule floor";
  for (const auto& [load, values] : floors) drawing.rows.push_back({label, 0, load, 0, median(values)});
  drawing.overlays.emplace_back(python_key(label, 0), python_text("#555555"));
  drawing.overlay_names.emplace_back(python_text("theory"), python_text("Theory: sum-rule floor"));
}

void finish(Drawing& drawing, const std::vector<RecordLine>& lines, bool log) {
  const std::set<double> loads = loads_of(lines);
  // One load alone would otherwise stand on the frame.
  const double margin = std::max(0.02 * *loads.rbegin(), loads.size() == 1 ? 1.0 : 0.0);
  std::vector<FigureRow> visible;  // published points may lie at larger loads than the records
  std::copy_if(drawing.rows.begin(), drawing.rows.end(), std::back_inserter(visible),
               [&](const FigureRow& row) { return row.x <= *loads.rbegin() + margin; });
  const auto [low, high] = loss_range(visible, log);
  drawing.figure["xlabel"] = "Associations";
  drawing.figure["ylabel"] = "Evaluation loss";
  drawing.figure["xscale"] = "linear";
  drawing.figure["yscale"] = log ? "log" : "linear";
  drawing.figure["xlim"] = {0.0, *loads.rbegin() + margin};
  drawing.figure["ylim"] = {low, high};
  drawing.figure["ticks_at_d_dot"] = false;
  drawing.figure["vertical"] = nlohmann::ordered_json::array();
  drawing.figure["vertical_name"] = "";
  drawing.figure["footnote"] = seeds_footnote(lines, drawing.rows);
}

}  // namespace

Drawing draw_capacity(const FigureInput& input) {
  const auto lines = lines_over_loads(input, "capacity");
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "associations");
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);
  add_legend(drawing, lines, input.styles, expected, true);
  add_final_losses(drawing, lines);
  if (input.options.theory) add_rank_bounds(drawing, lines, input.styles);
  if (!input.options.published.empty())
    add_published(drawing, lines, input.styles, input.options.published, 1, input.notes);
  finish(drawing, lines, false);
  drawing.figure["ticks_at_d_dot"] =
      std::any_of(lines.begin(), lines.end(), [](const RecordLine& line) { return line.d_dot > 0; });
  return drawing;
}

Drawing draw_updates(const FigureInput& input) {
  const auto lines = lines_over_loads(input, "updates");
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "associations");
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  add_final_losses(drawing, lines);
  if (input.options.theory) add_sum_rule_floor(drawing, input.records, input.notes);
  if (!input.options.published.empty())
    add_published(drawing, lines, input.styles, input.options.published, 2, input.notes);
  finish(drawing, lines, true);
  return drawing;
}

}  // namespace crosstalk
