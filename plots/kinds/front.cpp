// The figure of what memories reach against what a token costs them, with the front: no memory is better at the same cost.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/numbers/statistics.h"

namespace crosstalk::figures {
namespace {

/// A memory: its cost, and of each seed the values of its settings, logarithms of losses.
struct Point {
  double x = kNone;
  std::map<std::int64_t, std::map<std::string, double>> by_seed;
};

Drawing draw_front(const FigureInput& input) {
  const Metric metric = metric_of(input);
  const auto operations = [&](const Record* record) {
    return input.options.operations_of ? input.options.operations_of(*record) : std::nullopt;
  };
  const bool of_state =
      !input.options.x.empty() || std::ranges::none_of(input.records, [&](const Record* record) {
        return operations(record).has_value();
      });
  std::map<std::string, Point> points;
  std::set<std::string> without;
  auto families = nlohmann::ordered_json::object();
  for (const Record* record : input.records) {
    const double value = value_of(*record, metric);
    if (std::isnan(value)) continue;
    const auto known = of_state ? std::optional(static_cast<double>(record->state_size)) : operations(record);
    if (!known || *known <= 0) {
      without.insert(record->label);
      continue;
    }
    const auto& known_families = input.options.memories.families;
    if (const auto family = known_families.find(config_text(*record, "memory.name").value_or(""));
        family != known_families.end())
      families[record->label] = family->second;
    Point& point = points[record->label];
    point.x = std::max(*known, std::isnan(point.x) ? 0 : point.x);
    if (!point.by_seed[record->seed]
             .emplace(task_setting(*record), metric.is_loss ? std::log(value) : value)
             .second)
      throw std::invalid_argument(fmt::format(
          "front: label '{}' has several runs of one setting and seed {}; choose one (--where KEY=VALUE), and rates by --best "
          "train.learning_rate",
          record->label, record->seed));
  }
  if (!without.empty())
    input.notes << fmt::format("left out, as nothing says what a token costs them: {}\n",
                               fmt::join(without, ", "));
  if (points.empty())
    throw std::invalid_argument(
        "front needs runs of memories whose law is text, or that have a state (--x state_size)");
  Drawing drawing = begin_drawing(kNamedTemplate, input.options, "cost");
  drawing.capacity_columns = true;
  SeedRange seeds;
  double low = kInfinity, high = 0;
  for (const auto& [label, point] : points) {
    std::vector<double> values;
    for (const auto& [seed, settings] : point.by_seed) {
      double sum = 0;
      for (const auto& [setting, value] : settings) sum += value;
      const double mean = sum / static_cast<double>(settings.size());
      values.push_back(metric.is_loss ? std::exp(mean) : mean);
    }
    const Summary here = summarise(values);
    drawing.rows.push_back({label, 0, point.x, here.n, here.median, here.lo, here.hi});
    drawing.lines.push_back({label, 0, "", {here.n, here.n}, ""});
    low = std::min(low, point.x), high = std::max(high, point.x);
    seeds.add(here.n);
  }
  const auto [least, most] = value_range(drawing.rows, metric.is_loss);
  for (const FigureRow& row : front_of(drawing.rows, metric.is_loss)) drawing.rows.push_back(row);
  drawing.overlays.push_back({"front", 0, "Front: no other is better at the same cost"});
  std::ranges::stable_sort(drawing.lines, [&](const LineEntry& a, const LineEntry& b) {
    return input.styles.at(a.label).rank < input.styles.at(b.label).rank;
  });
  drawing.figure["xlabel"] = of_state ? "State (floats)" : "Operations a token";
  drawing.figure["ylabel"] = metric.axis;
  drawing.figure["xscale"] = low == high ? "linear" : "log";
  drawing.figure["yscale"] = metric.is_loss ? "log" : "linear";
  drawing.figure["xlim"] = {low / 1.2, high * 1.2};
  drawing.figure["ylim"] = {least, most};
  drawing.figure["edge"] = high * 1.2;
  drawing.figure["families"] = families;
  drawing.footnotes = {fmt::format("Point: median over seeds of the {} over settings; bar: {}.",
                                   metric.is_loss ? "geometric mean" : "mean", seeds.interval())};
  return drawing;
}

}  // namespace

Figure front() {
  return {
      .kind =
          {.name = "front",
           .summary = "What each memory reaches against what a token costs it, with the front",
           .x =
               "Operations a token of the memory's law, with the state and before ('crosstalk check'; projections are not among "
               "them); floats of state with --x state_size, or where no memory has a law as text.",
           .y = "A --metric, of one setting or the mean over several (of losses the geometric one).",
           .statistic =
               "Point: median over seeds; bar: its interval. The front: no memory is better at the same cost or a lower one.",
           .options = {"--x"},
           .columns = columns_over("cost", {"censored", "unsolved"})},
      .draw = draw_front};
}

}  // namespace crosstalk::figures
