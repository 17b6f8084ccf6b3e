// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "plots/drawing/window.h"

namespace crosstalk {
namespace {

bool any_has(const FigureInput& input, const std::string& metric) {
  return std::ranges::any_of(input.records,
                             [&](const Record* record) { return record->metrics.contains(metric); });
}

}  // namespace

std::optional<double> learning_rate_of(const Record& record) { return config_number(record, kLearningRate); }

void check_rates(const FigureInput& input) {
  if (std::ranges::find(input.options.best, kLearningRate) != input.options.best.end())
    throw std::invalid_argument(
        "window shows every learning rate and marks the best; leave out --best train.learning_rate");
  std::set<double> rates;
  for (const Record* record : input.records)
    if (const auto rate = learning_rate_of(*record); rate && *rate > 0) rates.insert(*rate);
  if (rates.size() < 2)
    throw std::invalid_argument(fmt::format(
        "window needs runs with several learning rates (\"train.learning_rate\" = [...] in a grid, as experiments/lr_atlas.toml has); {}",
        rates.empty() ? "these have none" : fmt::format("these have {} alone", *rates.begin())));
}

Metric window_metric(const FigureInput& input) {
  FigureOptions options = input.options;
  if (options.metric.empty()) {
    const bool language = std::ranges::all_of(
        input.records, [](const Record* record) { return config_text(*record, "model.name") == "language"; });
    const std::string what = language ? "accuracy" : "loss";
    options.metric = (any_has(input, "test_" + what) ? "test_" : "eval_") + what;
  }
  return metric_of({input.records, input.styles, options, input.notes, input.of_all_panels});
}

Drawing draw_windows(const FigureInput& input) {
  check_rates(input);
  const Metric metric = window_metric(input);
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, kLearningRate);
  drawing.needs = {kLearningRate};
  drawing.metric = metric.name;
  auto lines = make_lines(input.records, learning_rate_of, kLearningRate, Apart::label);
  sort_lines(lines, input.styles);
  begin_lines(drawing, lines, input, kLearningRate);
  for (const RecordLine& line : lines)
    for (const auto& [rate, records] : line.points)
      drawing.rows.push_back(row_of(line, rate, records, metric));
  return drawing;
}

Windows windows_of(const FigureInput& input, const Drawing& drawing) {
  const Metric metric = window_metric(input);
  Windows windows{metric, input.options.threshold, {}};
  if (std::isnan(windows.threshold)) windows.threshold = metric.is_loss ? threshold_of(input) : 0.9;
  for (const LineEntry& line : drawing.lines) {
    RateWindow window{line, 0, 0, kNone, kNone, {}};
    for (const FigureRow& row : drawing.rows) {
      if (row.label != line.label || row.n == 0) continue;
      ++window.tried;
      if (metric.is_loss ? row.median <= windows.threshold : row.median >= windows.threshold) {
        if (window.good++ == 0) window.smallest = row.x;
        window.largest = row.x;
      }
      if (window.best.n == 0 ||
          (metric.is_loss ? row.median < window.best.median : row.median > window.best.median))
        window.best = row;
    }
    windows.rows.push_back(window);
  }
  std::ranges::stable_sort(windows.rows, [&](const RateWindow& a, const RateWindow& b) {
    if (a.good != b.good) return a.good > b.good;
    return metric.is_loss ? a.best.median < b.best.median : a.best.median > b.best.median;
  });
  return windows;
}

}  // namespace crosstalk
