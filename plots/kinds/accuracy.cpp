// The figure of accuracy (or any metric) against a key: width, pairs, length, bytes of state.
// SPDX-License-Identifier: Apache-2.0

#include "plots/kinds/figure_file.h"
#include "results/csv.h"

namespace crosstalk::figures {
namespace {

Metric accuracy_metric(const FigureInput& input) {
  if (!input.options.metric.empty()) return metric_of(input);
  return input.options.best.empty() ? Metric{"eval_accuracy", "Evaluation accuracy", false}
                                    : Metric{"test_accuracy", "Test accuracy", false};
}

std::string axis_of(const std::string& x) {
  if (x == kStateBytes) return "State (bytes per sequence, fp32)";
  if (x == "task.pairs") return "Key-value pairs";
  if (x == "task.associations") return "Associations $S$";
  if (x == "task.length") return "Sequence length";
  if (x == "model.width") return "Model width";
  return symbol_of(x);
}

/// The level of chance where all records share it.
void add_chance_level(Drawing& drawing, const FigureInput& input, std::pair<double, double> xlim) {
  std::set<double> levels;
  for (const Record* record : input.records)
    if (const double chance = metric_in(*record, "chance_accuracy"); !std::isnan(chance))
      levels.insert(chance);
  if (levels.size() == 1) add_level(drawing, "chance", "Chance", *levels.begin(), xlim);
}

/// The least loss that anything has on average, at every place where all records agree on it (task regression).
void add_optimum(Drawing& drawing, const FigureInput& input, const std::string& x) {
  std::map<double, std::set<double>> losses;
  for (const Record* record : input.records) {
    const double optimum = metric_in(*record, "optimum_loss");
    const std::optional<double> place = place_on_axis(*record, x);
    if (!std::isnan(optimum) && place) losses[*place].insert(optimum);
  }
  const std::string label = "theory: optimum";
  bool any = false;
  for (const auto& [place, values] : losses) {
    if (values.size() != 1) continue;
    drawing.rows.push_back({label, 0, place, 0, *values.begin()});
    any = true;
  }
  if (!any) return;
  drawing.overlays.push_back({label, 0, "#555555"});
  drawing.overlay_names.emplace_back("theory", "Optimum (ridge regression)");
}

/// The published points on the axis x; along state_bytes their width, and what stands around the memory, is their own, too.
void add_published_accuracies(Drawing& drawing, const std::vector<RecordLine>& lines,
                              const FigureInput& input, const std::string& x, const std::string& metric) {
  const auto place = [&](const PublishedPoint& point, const Record&) {
    const auto known = point.known.find(x);
    if (known != point.known.end()) return number_in(known->second).value_or(kNone);
    const auto given = [&](const char* column) {
      const auto number = point.metrics.find(column);
      return number == point.metrics.end() ? kNone : number->second;
    };
    if (x != kStateBytes) return kNone;
    const double bytes = given(kStateBytes);
    return std::isfinite(bytes) ? bytes : 4 * given("state_size");
  };
  std::vector<std::string> metrics = {metric}, own = {x};
  if (metric == "test_accuracy") metrics.emplace_back("eval_accuracy");
  if (x == kStateBytes)
    own.insert(own.end(), {"model.width", "model.d_key", "model.out_norm", "model.out_gate"});
  add_published_points(drawing, lines, input, metrics, own, place);
}

Drawing draw_accuracy(const FigureInput& input) {
  std::string x = varying_key(input);
  for (const char* key : {"task.pairs", "task.associations", "task.length", "model.width"})  // of one setting
    if (x.empty() && std::ranges::all_of(input.records, [&](const Record* record) {
          return config_number(*record, key).has_value();
        }))
      x = key;
  if (x.empty()) x = "model.width";
  const Metric metric = accuracy_metric(input);
  auto lines = make_lines(
      input.records, [&](const Record& record) { return place_on_axis(record, x); }, x, Apart::label);
  if (lines.empty()) throw std::invalid_argument("accuracy: " + no_number(input.records, x));
  sort_lines(lines, input.styles);
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, x);
  drawing.needs = {x};
  drawing.metric = metric.name;
  begin_lines(drawing, lines, input, x);
  std::set<double> places;
  for (const RecordLine& line : lines)
    for (const auto& [place, records] : line.points) {
      drawing.rows.push_back(row_of(line, place, records, metric));
      places.insert(place);
    }
  if (!input.options.published.empty()) add_published_accuracies(drawing, lines, input, x, metric.name);
  for (const FigureRow& row : drawing.rows) places.insert(row.x);
  const double first = *places.begin();
  const auto [scale, range] = size_axis(first, *places.rbegin(), first == 0 ? 1 : 0.1 * std::abs(first));
  if (input.options.theory && metric.name.ends_with("accuracy")) add_chance_level(drawing, input, range);
  if (input.options.theory && (metric.name == "test_loss" || metric.name.ends_with("eval_loss")))
    add_optimum(drawing, input, x);
  auto [low, high] = value_range(drawing.rows, false, kNone);
  if (!metric.is_loss) low = -0.02, high = std::max(1.02, high > 1.02 ? high : 0);
  set_axes(drawing, axis_of(x), metric.axis, scale, "linear", range, {low, high});
  if (x == "task.pairs" || x == kLoad) {  // what a head can tell apart, beside what it has to
    std::set<double> sizes;
    for (const Record* record : input.records)
      if (record->d_dot > 0)
        sizes.insert(static_cast<double>(record->d_dot) / config_number(*record, "model.heads").value_or(1));
    std::erase_if(sizes, [&range = range](double size) { return size < range.first || size > range.second; });
    constexpr std::size_t kMostMarked = 3;
    if (!sizes.empty() && sizes.size() <= kMostMarked) {
      drawing.figure["vertical"] = sizes;
      drawing.figure["vertical_name"] = "$d_{\\mathrm{dot}}$ of a head";
    }
  }
  count_drawn_seeds(drawing, lines);
  return drawing;
}

}  // namespace

Figure accuracy() {
  return {
      .kind =
          {.name = "accuracy",
           .summary = "Accuracy against pairs, width, state bytes or any other key (--x)",
           .x = "--x KEY, state_bytes (4 bytes a float, or as a table gives it), or the key that "
                "varies: pairs, associations, width, length, d_key or learning rate.",
           .y =
               "eval_accuracy, with --best test_accuracy; or any --metric. Dashed: chance, where all runs share it.",
           .statistic = kMedian,
           .options = {"--x", "--no-theory", "--published"},
           .columns = columns_over("KEY")},
      .draw = draw_accuracy};
}

}  // namespace crosstalk::figures
