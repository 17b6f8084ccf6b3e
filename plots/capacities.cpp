// Figures of capacity (the largest load that a memory solves) against d_dot and against state size.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

#include "plots/drawing.h"

namespace crosstalk {
namespace {

constexpr const char* kLoad = "task.associations";

/// A memory of one size: what it stores.
struct Measured {
  const RecordLine* line = nullptr;
  Capacity capacity;
  double state_size = 0;  ///< at the load of its capacity (values, and softmax's cache, grow with the load)
};

std::vector<RecordLine> lines_by_size(const FigureInput& input, const char* figure) {
  auto lines = make_lines(
      input.records, [](const Record& record) { return config_number(record, kLoad); }, kLoad, true);
  if (lines.empty())
    throw std::invalid_argument(fmt::format("{} needs records with {} (tasks recall and reassign); {}",
                                            figure, kLoad, what_they_are(input.records)));
  sort_lines(lines, input.styles);
  return lines;
}

Measured measure(const RecordLine& line, double threshold) {
  std::vector<LoadPoint> points;
  for (const auto& [load, records] : line.points)
    for (const Record* record : results_of(records))
      points.push_back({load, record->seed, has_diverged(*record) ? kNone : record->eval_loss});
  Measured measured;
  measured.line = &line;
  if (!points.empty()) measured.capacity = capacity(points, threshold);
  const auto at = line.points.find(measured.capacity.capacity);
  const RecordList& records = at != line.points.end() ? at->second : line.points.begin()->second;
  measured.state_size = static_cast<double>(records.front()->state_size);
  return measured;
}

/// A legend entry a label: its worst count of seeds and all its diverged runs.
void add_label_legend(Drawing& drawing, const std::vector<Measured>& all,
                      const std::map<std::string, LabelStyle>& styles, int expected) {
  std::vector<std::string> order;
  std::map<std::string, SeedCount> counts;
  for (const Measured& measured : all) {
    const SeedCount count = count_seeds(*measured.line, expected);
    const auto [entry, is_new] = counts.emplace(measured.line->label, count);
    if (is_new) {
      order.push_back(measured.line->label);
      continue;
    }
    entry->second.least = std::min(entry->second.least, count.least);
    entry->second.most = std::max(entry->second.most, count.most);
    entry->second.diverged += count.diverged;
  }
  for (const std::string& label : order) {
    const SeedCount& count = counts[label];
    const std::string name = legend_name(label, "", count);
    drawing.lines.emplace_back(python_text(label), fmt::format("({}, {}, {})", python_text(name),
                                                               python_text(styles.at(label).colour),
                                                               python_text(styles.at(label).marker)));
  }
}

/// Axis limits on a log scale, a quarter octave or so beyond the data.
std::vector<double> log_limits(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const double value : values) {
    if (!(value > 0)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (high <= 0) return {1.0, 2.0};
  return {std::floor(low / 1.3 * 100) / 100, std::ceil(high * 1.5)};
}

Drawing draw_capacities(const FigureInput& input, const std::vector<RecordLine>& lines, bool against_ddot) {
  Drawing drawing = begin_drawing(kPointsTemplate, input.options, against_ddot ? "d_key" : "state_size");
  drawing.censored_column = true;
  if (!input.options.published.empty())
    input.notes << "published points belong to capacity and updates; left out\n";
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);

  std::vector<Measured> all;
  std::vector<double> xs, ys, fit_x, fit_y;
  double smallest_load = std::numeric_limits<double>::infinity();
  for (const RecordLine& line : lines) {
    const Measured measured = measure(line, input.options.threshold);
    const Capacity& result = measured.capacity;
    all.push_back(measured);
    smallest_load = std::min(smallest_load, line.points.begin()->first);
    FigureRow row{line.label, line.d_dot, against_ddot ? line.d_key : measured.state_size, result.seeds};
    if (result.seeds > 0) {
      row.median = result.capacity;
      row.lo = result.lo;
      row.hi = result.hi;
      row.censored = result.censored;
    }
    drawing.rows.push_back(row);
    const double x = against_ddot ? static_cast<double>(line.d_dot) : measured.state_size;
    xs.push_back(x);
    for (const double y : {result.capacity, result.lo, result.hi}) ys.push_back(y);
    if (result.seeds > 0 && result.capacity > 0 && !result.censored) {
      fit_x.push_back(x);
      fit_y.push_back(result.capacity);
    }
  }
  add_label_legend(drawing, all, input.styles, expected);
  const bool none_solved = std::none_of(ys.begin(), ys.end(), [](double y) { return y > 0; });
  if (none_solved) {
    ys = {smallest_load, 2 * smallest_load};
    input.notes << fmt::format("no memory solves its smallest load at a loss of {}\n",
                               input.options.threshold);
  }
  const auto xlim = log_limits(xs);
  auto ylim = log_limits(ys);

  drawing.figure["x"] = against_ddot ? "d_dot" : "state_size";
  drawing.figure["xlabel"] = against_ddot ? "$d_{\\mathrm{dot}}$" : "State size (floats per sequence)";
  drawing.figure["ylabel"] = "Capacity (associations)";
  drawing.figure["xscale"] = against_ddot ? "log2" : "log";
  drawing.figure["yscale"] = "log2";
  drawing.figure["xlim"] = xlim;
  drawing.figure["ylim"] = ylim;
  drawing.figure["fit"] = "";
  drawing.figure["footnote"] = fmt::format(
      "Capacity: the largest load that is solved (median loss at most {}) with every smaller one.\nBars: 95 "
      "% "
      "bootstrap interval over {} seeds.",
      input.options.threshold, expected);
  if (!against_ddot) return drawing;

  const std::set<double> distinct(fit_x.begin(), fit_x.end());
  if (distinct.size() >= 2) {
    const LineFit fit = fit_line(fit_x, fit_y);
    drawing.rows.push_back({"fit: slope", 0, kNone, fit.n, fit.slope, fit.slope_lo, fit.slope_hi});
    drawing.rows.push_back({"fit: intercept", 0, kNone, fit.n, fit.intercept});
    drawing.figure["fit"] =
        std::isfinite(fit.slope_lo) && std::isfinite(fit.slope_hi)
            ? fmt::format("Fit: slope {:.2f} [{:.2f}, {:.2f}]", fit.slope, fit.slope_lo, fit.slope_hi)
            : fmt::format("Fit: slope {:.2f}", fit.slope);
  } else {
    input.notes << "fit: fewer than two sizes have a capacity inside the grid; no slope\n";
  }
  if (input.options.theory) {
    const std::string label = "theory: capacity = d_dot";
    const std::set<double> sizes(xs.begin(), xs.end());
    for (const double size : sizes)
      drawing.rows.push_back({label, static_cast<std::int64_t>(size), kNone, 0, size});
    drawing.overlays.emplace_back(python_text(label), python_text("Theory: capacity = $d_{\\mathrm{dot}}$"));
  }
  return drawing;
}

}  // namespace

Drawing draw_capacity_vs_ddot(const FigureInput& input) {
  auto lines = lines_by_size(input, "capacity-vs-ddot");
  const auto without = std::stable_partition(lines.begin(), lines.end(),
                                             [](const RecordLine& line) { return line.d_dot > 0; });
  std::set<std::string> dropped;
  for (auto line = without; line != lines.end(); ++line) dropped.insert(line->label);
  lines.erase(without, lines.end());
  for (const std::string& label : dropped)
    input.notes << fmt::format("{} has no d_dot and is left out\n", label);
  if (lines.empty())
    throw std::invalid_argument("capacity-vs-ddot needs memories with a d_dot; these have none");
  return draw_capacities(input, lines, true);
}

Drawing draw_capacity_vs_state(const FigureInput& input) {
  auto lines = lines_by_size(input, "capacity-vs-state");
  std::erase_if(lines, [](const RecordLine& line) {
    return std::any_of(line.points.begin(), line.points.end(),
                       [](const auto& point) { return point.second.front()->state_size <= 0; });
  });
  if (lines.empty())
    throw std::invalid_argument("capacity-vs-state needs records with a state size; these have none");
  return draw_capacities(input, lines, false);
}

}  // namespace crosstalk
