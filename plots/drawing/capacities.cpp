// Figures of capacity (the largest load that a memory solves) against d_dot, state size and parameters.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "results/numbers/theory.h"

namespace crosstalk {
namespace {

/// A memory of one size: what it stores.
struct Measured {
  const RecordLine* line = nullptr;
  Capacity capacity;
  double size = 0;  ///< x, at the load of its capacity (values, and softmax's cache, grow with the load)
};

/// Of an accuracy what is lacking to 1 is the loss.
Measured measure(const RecordLine& line, const Metric& metric, double threshold, Against against) {
  std::vector<LoadPoint> points;
  for (const auto& [load, records] : line.points)
    for (const Record* record : results_of(records)) {
      const double value = value_of(*record, metric);
      points.push_back({load, record->seed, metric.is_loss ? value : 1 - value});
    }
  Measured measured;
  measured.line = &line;
  if (!points.empty()) measured.capacity = capacity(points, threshold);
  const auto at = line.points.find(measured.capacity.capacity);
  const RecordList& records = at != line.points.end() ? at->second : line.points.begin()->second;
  measured.size = size_of(*records.front(), against);
  return measured;
}

/// A legend entry a label: its worst count of seeds and all its diverged runs.
void add_label_legend(Drawing& drawing, const std::vector<Measured>& all, int expected) {
  for (const Measured& measured : all) {
    const SeedCount count = count_seeds(*measured.line, expected);
    const auto known = std::ranges::find(drawing.lines, measured.line->label, &LineEntry::label);
    if (known == drawing.lines.end())
      drawing.lines.push_back({measured.line->label, measured.line->d_dot, "", count, ""});
    else
      known->count.add(count);
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

/// The bound of the rank on capacity, within the sizes and loads of the records: for each size the largest
/// load that a memory of so many features can solve to within the threshold.
void add_theory(Drawing& drawing, const std::vector<RecordLine>& lines, double threshold,
                const MemoryFacts& facts) {
  std::map<double, double> bounds;
  double last_load = 0;
  for (const RecordLine& line : lines) last_load = std::max(last_load, line.points.rbegin()->first);
  for (const RecordLine& line : lines)
    if (const auto bound = rank_capacity(*line.points.begin()->second.front(), threshold, facts)) {
      const auto size = static_cast<double>(line.d_dot);
      // Where two settings differ, neither line is a theorem for both.
      if (const auto [at, is_new] = bounds.emplace(size, *bound); !is_new && at->second != *bound) return;
    }
  // At a threshold above zero the bound of d features is a little more than d, which may be the last load.
  std::erase_if(bounds, [&](const auto& bound) { return bound.second > 1.02 * last_load; });
  if (bounds.size() < 2) return;
  const std::string label = "theory: capacity of the rank bound";
  for (const auto& [size, bound] : bounds)
    drawing.rows.push_back({label, static_cast<std::int64_t>(size), kNone, 0, bound});
  const bool expected = std::ranges::any_of(lines, [](const RecordLine& line) {  // values coincide by chance
    return config_text(*line.points.begin()->second.front(), "task.name") == "reassign";
  });
  drawing.overlays.push_back(
      {label, 0, expected ? "Theory: rank, expected over all data" : "Theory: rank bound"});
}

/// A line through the brackets of all memories, those beyond the grid included.
void add_fit(Drawing& drawing, const std::vector<Measured>& all, std::ostream& notes) {
  std::vector<Bracket> brackets;
  for (const Measured& measured : all)
    if (measured.capacity.seeds > 0)
      brackets.push_back({measured.size, measured.capacity.capacity, measured.capacity.unsolved});
  const LineFit fit = fit_line(brackets);
  if (!std::isfinite(fit.slope)) {
    notes << "fit: fewer than three sizes have a capacity inside the grid; no slope\n";
    return;
  }
  drawing.rows.push_back({"fit: slope", 0, kNone, fit.n, fit.slope, fit.slope_lo, fit.slope_hi});
  drawing.rows.push_back({"fit: intercept", 0, kNone, fit.n, fit.intercept});
  drawing.figure["fit"] =
      fmt::format("Fit: slope {:.2f} [{:.2f}, {:.2f}]", fit.slope, fit.slope_lo, fit.slope_hi);
  drawing.footnotes.emplace_back(
      "Fit: interval regression over all memories, those solved at the largest tested number included; 95 % interval of the slope.");
}

}  // namespace

double size_of(const Record& record, Against against) {
  if (against == Against::d_dot) return static_cast<double>(record.d_dot);
  if (against == Against::state) return state_floats(record);
  if (against == Against::state_in_bytes) return state_bytes(record);
  const double parameters = metric_in(record, "parameters");
  return std::isnan(parameters) ? 0 : parameters;
}

Drawing draw_capacities(const FigureInput& input, const std::vector<RecordLine>& lines, Against against) {
  static const std::map<Against, std::array<const char*, 3>> axes = {
      {Against::d_dot, {"d_key", "d_dot", "$d_{\\mathrm{dot}}$"}},
      {Against::state, {"state_size", "state_size", "State size (floats per sequence)"}},
      {Against::state_in_bytes, {"state_bytes", "state_bytes", "State (bytes per sequence, fp32)"}},
      {Against::parameters, {"parameters", "parameters", "Trained parameters"}}};
  const auto& [column, x, xlabel] = axes.at(against);
  Drawing drawing = begin_drawing(kPointsTemplate, input.options, column);
  drawing.capacity_columns = true;
  drawing.needs = {kLoad};
  if (against != Against::d_dot)
    drawing.needs.emplace_back(against == Against::state_in_bytes ? "state_size" : x);
  if (!input.options.published.empty())
    input.notes << "published points belong to capacity and updates; left out\n";
  const std::optional<double> accuracy = input.options.metric.empty() ? solved_accuracy(input) : std::nullopt;
  const Metric metric = accuracy ? Metric{"eval_accuracy", "Evaluation accuracy", false} : metric_of(input);
  if (!metric.is_loss && !accuracy)
    throw std::invalid_argument(fmt::format(
        "a capacity is the largest number of associations with a loss below a threshold; --metric {} is no loss",
        metric.name));
  drawing.metric = metric.name;
  const double threshold = accuracy ? 1 - *accuracy : threshold_of(input);
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);

  std::vector<Measured> all;
  std::vector<double> xs, ys;
  double smallest_load = kInfinity;
  SeedRange seeds;
  for (const RecordLine& line : lines) {
    const Measured measured = measure(line, metric, threshold, against);
    const Capacity& result = measured.capacity;
    all.push_back(measured);
    smallest_load = std::min(smallest_load, line.points.begin()->first);
    FigureRow row{line.label, line.d_dot, against == Against::d_dot ? line.d_key : measured.size,
                  result.seeds};
    if (result.seeds > 0) {
      row.median = result.capacity, row.lo = result.lo, row.hi = result.hi;
      row.censored = result.censored;
      row.unsolved = result.unsolved;
      for (const auto& [seed, load] : result.by_seed) row.seeds.push_back({std::to_string(seed), load});
      seeds.add(result.seeds);
    }
    drawing.rows.push_back(row);
    xs.push_back(measured.size);
    for (const double y : {result.capacity, result.lo, result.hi})
      if (std::isfinite(y)) ys.push_back(y);
  }
  add_label_legend(drawing, all, expected);
  if (std::ranges::none_of(ys, [](double y) { return y > 0; })) ys = {smallest_load, 2 * smallest_load};
  if (std::ranges::all_of(all, [](const Measured& one) { return one.capacity.capacity <= 0; }))
    input.notes << fmt::format("no memory solves its smallest number of associations ({})\n",
                               solved_text(input, metric));

  drawing.figure["x"] = x;
  drawing.figure["xlabel"] = xlabel;
  drawing.figure["ylabel"] = "Capacity (associations)";
  drawing.figure["xscale"] = against == Against::d_dot ? "log2" : "log";
  drawing.figure["yscale"] = "log2";
  drawing.figure["xlim"] = log_limits(xs);
  drawing.figure["ylim"] = log_limits(ys);
  drawing.figure["fit"] = "";
  drawing.footnotes.push_back(fmt::format(
      "Capacity: the largest tested number of associations up to which every tested one is solved "
      "({}). Bars: {}, from the last solved number to the next tested one.",
      solved_text(input, metric), seeds.interval()));
  drawing.brief[drawing.footnotes.back()] = fmt::format("Bars: {}.", seeds.interval());
  if (against != Against::d_dot) return drawing;
  add_fit(drawing, all, input.notes);
  if (input.options.theory && !accuracy) add_theory(drawing, lines, threshold, input.options.memories);
  return drawing;
}

}  // namespace crosstalk
