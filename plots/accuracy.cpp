// Figure of accuracy against a size: pairs, width of the model, bytes of its state.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plots/drawing.h"

namespace crosstalk {
namespace {

struct Axis {
  const char *key, *name;
};
// What --x knows by name; the first that varies is taken where nobody says.
constexpr Axis kAxes[] = {{"task.pairs", "Key-value pairs $D$"},   {"model.width", "Width of the model"},
                          {"task.length", "Tokens of a sequence"}, {"task.associations", "Associations $S$"},
                          {"state_bytes", "Bytes of the state"},   {"parameters", "Parameters"}};

std::string axis_name(const std::string& key) {
  for (const Axis& axis : kAxes)
    if (axis.key == key) return axis.name;
  return symbol_of(key);
}

std::string chosen_axis(const FigureInput& input) {
  if (!input.options.x.empty()) return input.options.x;
  for (const Axis& axis : kAxes) {
    std::set<double> places;
    for (const Record* record : input.records)
      if (const auto x = accuracy_x(*record, axis.key)) places.insert(*x);
    if (places.size() > 1) return axis.key;
  }
  return kAxes[0].key;
}

}  // namespace

std::optional<double> accuracy_x(const Record& record, const std::string& key) {
  if (key == "state_bytes") return 4 * static_cast<double>(record.state_size);
  if (key == "parameters") {
    const auto found = record.metrics.find(key);
    return found == record.metrics.end() ? std::nullopt : std::optional(found->second);
  }
  return config_number(record, key);
}

Drawing draw_accuracy(const FigureInput& all) {
  FigureOptions options = all.options;
  if (options.metric.empty()) options.metric = options.best.empty() ? "eval_accuracy" : "test_accuracy";
  const FigureInput input{all.records, all.styles, options, all.notes};
  const Metric metric = metric_of(input);
  const std::string key = chosen_axis(input);
  // A line goes through models of every size, so through every d_dot.
  auto lines = make_lines(
      input.records, [&](const Record& record) { return accuracy_x(record, key); }, key,
      LinesApart::by_label);
  if (lines.empty()) {
    std::vector<std::string> names;
    for (const Axis& axis : kAxes) names.emplace_back(axis.key);
    throw std::invalid_argument(
        fmt::format("accuracy --x {}: no record has this number (for instance {}); {}", key,
                    fmt::join(names, ", "), what_they_are(input.records)));
  }
  sort_lines(lines, input.styles);
  Drawing drawing = begin_drawing(kLinesTemplate, options, key.substr(key.find('.') + 1));
  drawing.x_key = key;
  const int expected = expected_seeds(lines, options.expected_seeds);
  note_missing(lines, expected, key, input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  std::set<double> places;
  for (const RecordLine& line : lines) {
    for (const auto& [x, records] : line.points) {
      drawing.rows.push_back(row_of(line, x, records, metric));
      places.insert(x);
    }
  }
  const double first = *places.begin(), last = *places.rbegin();
  const bool log = first > 0 && last >= 4 * first;
  const double margin = places.size() == 1 ? 1 : 0.03 * (last - first);
  const std::pair<double, double> range =
      log ? std::pair{first / 1.1, last * 1.1} : std::pair{first - margin, last + margin};
  set_axes(drawing, axis_name(key).c_str(), metric.axis.c_str(),
           !log                                          ? "linear"
           : key == "state_bytes" || key == "parameters" ? "log"
                                                         : "log2",
           "linear", range, metric.is_loss ? value_range(drawing.rows, false) : std::pair{-0.02, 1.02});
  if (!options.published.empty()) input.notes << "published points are losses; accuracy leaves them out\n";
  add_seeds_footnote(drawing, lines);
  if (options.theory && !metric.is_loss) add_chance(drawing, input.records, range);
  return drawing;
}

}  // namespace crosstalk
