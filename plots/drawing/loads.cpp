// Figures of final loss against associations.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plots/drawing/drawing.h"

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

void finish(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
            const Metric& metric, bool log) {
  const bool by_accuracy = solved_accuracy(input).has_value();
  const double threshold =
      metric.is_loss && metric.name != "steps" && !by_accuracy ? threshold_of(input) : kNone;
  const std::set<double> loads = loads_of(lines);
  // One load alone would otherwise stand on the frame.
  const double margin = std::max(0.02 * *loads.rbegin(), loads.size() == 1 ? 1.0 : 0.0);
  std::vector<FigureRow> visible;  // published points may lie at larger loads than the records
  std::ranges::copy_if(drawing.rows, std::back_inserter(visible),
                       [&](const FigureRow& row) { return row.x <= *loads.rbegin() + margin; });
  log = log && metric.is_loss;
  auto [low, high] = value_range(visible, log, threshold);
  if (!metric.is_loss) low = -0.02, high = std::max(1.02, high > 1.02 ? high : 0);
  set_axes(drawing, "Associations $S$", metric.axis, "linear", log ? "log" : "linear",
           {0, *loads.rbegin() + margin}, {low, high});
  if (std::isfinite(threshold)) drawing.figure["solved"] = threshold;
  count_drawn_seeds(drawing, lines);
  if (std::isfinite(threshold) || by_accuracy)
    drawing.footnotes.push_back(fmt::format("Solved: {}{}.",
                                            solved_text(input, {metric.name, "", !by_accuracy}),
                                            log ? "; what is below the axis stands on it" : ""));
}

}  // namespace

Drawing draw_loads(const FigureInput& input, const LoadsFigure& figure) {
  const auto lines = lines_over_loads(input, figure.name);
  const Metric metric = metric_of(input);
  const bool is_loss = metric.name == "eval_loss" || metric.name == "test_loss";
  // A legend that says d_key = 8 of each line need not say d_dot too, which the axis marks.
  const std::vector<std::string>& by = input.options.by;
  const bool by_size =
      std::ranges::any_of(by, [](const std::string& key) { return key == "model.d_key" || key == "d_dot"; });
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "associations");
  drawing.needs = {kLoad};
  drawing.metric = metric.name;
  begin_lines(drawing, lines, input, kLoad, figure.by_size && !by_size);
  add_final_values(drawing, lines, metric);
  if (input.options.theory && is_loss) figure.add_theory(drawing, lines, input, metric);
  if (!input.options.published.empty()) {
    if (is_loss)
      add_published(drawing, lines, input.styles, input);
    else
      input.notes << "published points are losses; left out\n";
  }
  finish(drawing, lines, input, metric, figure.log);
  drawing.figure["ticks_at_d_dot"] =
      figure.by_size && is_loss &&
      std::ranges::any_of(lines, [](const RecordLine& line) { return line.d_dot > 0; });
  return drawing;
}
}  // namespace crosstalk
