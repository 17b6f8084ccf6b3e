// Text of a figure's CSV and script, and the parts of settings that figures share.
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace crosstalk {
namespace {

std::string number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

/// Axis limits are read by people.
double three_digits(double value) { return std::stod(fmt::format("{:.3g}", value)); }

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string dict(const char* name, const char* comment,
                 const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string text = fmt::format("{} = {{{}\n", name, comment);
  for (const auto& [key, value] : entries) text += fmt::format("    {}: {},\n", key, value);
  return text + "}\n";
}

}  // namespace

Drawing begin_drawing(const std::string& script, const FigureOptions& options, const std::string& x_column) {
  Drawing drawing;
  drawing.script = script;
  drawing.x_column = x_column;
  drawing.figure["title"] = options.title;
  drawing.figure["x"] = x_column;
  return drawing;
}

std::string python_text(const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const auto& item : value) items.push_back(python_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  // JSON strings are Python strings as long as nothing is written as a pair of \u escapes.
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string python_key(const std::string& label, std::int64_t d_dot) {
  return fmt::format("({}, {})", python_text(label), d_dot);
}

void sort_lines(std::vector<RecordLine>& lines, const std::map<std::string, LabelStyle>& styles) {
  std::stable_sort(lines.begin(), lines.end(), [&](const RecordLine& a, const RecordLine& b) {
    return std::tuple(styles.at(a.label).rank, a.d_dot, a.d_key) <
           std::tuple(styles.at(b.label).rank, b.d_dot, b.d_key);
  });
}

std::string legend_name(const std::string& label, const std::string& size, const SeedCount& seeds) {
  std::vector<std::string> remarks;
  if (!size.empty()) remarks.push_back(size);
  if (!seeds.complete())
    remarks.push_back(seeds.least == seeds.most
                          ? fmt::format("{}/{} seeds", seeds.most, seeds.expected)
                          : fmt::format("{}-{}/{} seeds", seeds.least, seeds.most, seeds.expected));
  if (seeds.diverged > 0) remarks.push_back(fmt::format("{} diverged", seeds.diverged));
  if (remarks.empty()) return pretty_name(label);
  return fmt::format("{} ({})", pretty_name(label), fmt::join(remarks, ", "));
}

void add_legend(Drawing& drawing, const std::vector<RecordLine>& lines,
                const std::map<std::string, LabelStyle>& styles, int expected, bool always_d_dot) {
  static const char* const kDashes[] = {"-", "--", "-.", ":"};
  std::map<std::string, int> of_label, seen;
  for (const RecordLine& line : lines) ++of_label[line.label];
  for (const RecordLine& line : lines) {
    const LabelStyle& style = styles.at(line.label);
    const bool with_d_dot = line.d_dot > 0 && (always_d_dot || of_label[line.label] > 1);
    const std::string name =
        legend_name(line.label, with_d_dot ? fmt::format("$d_{{\\mathrm{{dot}}}}$ = {}", line.d_dot) : "",
                    count_seeds(line, expected));
    const char* dash = of_label[line.label] > 1 ? kDashes[seen[line.label]++ % 4] : style.dash.c_str();
    drawing.lines.emplace_back(python_key(line.label, line.d_dot),
                               fmt::format("({}, {}, {}, {})", python_text(name), python_text(style.colour),
                                           python_text(style.marker), python_text(dash)));
  }
}

std::string seeds_footnote(const std::vector<RecordLine>& lines, const std::vector<FigureRow>& rows) {
  int fewest = 0, most = 0;
  std::set<std::string> drawn;
  for (const RecordLine& line : lines) drawn.insert(line.label);
  for (const FigureRow& row : rows) {
    if (row.n <= 0 || drawn.count(row.label) == 0) continue;
    fewest = fewest == 0 ? row.n : std::min(fewest, row.n);
    most = std::max(most, row.n);
  }
  std::string text;
  if (most == 1)
    text = "One seed.";
  else
    text = fmt::format("Lines: median over {} seeds; bands: {}.",
                       fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most),
                       fewest >= 4 ? "interquartile range"
                       : most >= 4 ? "interquartile range (range where fewer than 4 seeds)"
                                   : "range over seeds");
  int diverged = 0;
  for (const RecordLine& line : lines) diverged += count_seeds(line, 0).diverged;
  if (diverged > 0) text += " Diverged runs are left out of both.";
  return text;
}

std::pair<double, double> loss_range(const std::vector<FigureRow>& rows, bool log) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const FigureRow& row : rows) {
    for (const double value : {row.median, row.hi})
      if (std::isfinite(value)) high = std::max(high, value);
    if (row.median > 0) low = std::min(low, row.median);
  }
  if (!log) return {-0.01, high <= 0.49 ? 0.5 : three_digits(std::min(1.0, 1.03 * high))};
  if (!std::isfinite(low)) return {1e-6, 1.0};
  low = std::max(low, 1e-12) / 1.6;
  high *= 1.6;
  low = std::min(low, std::pow(10.0, std::floor(std::log10(high))));
  return {three_digits(low), three_digits(high)};  // at least one labelled tick
}

std::string csv_text(const Drawing& drawing) {
  std::string text = fmt::format("label,d_dot,{},n,median,lo,hi{}\n", drawing.x_column,
                                 drawing.censored_column ? ",censored" : "");
  for (const FigureRow& row : drawing.rows) {
    text += fmt::format("{},{},{},{},{},{},{}", csv_field(row.label), row.d_dot, number(row.x), row.n,
                        number(row.median), number(row.lo), number(row.hi));
    if (drawing.censored_column) text += row.censored ? ",1" : ",0";
    text += '\n';
  }
  return text;
}

std::string script_text(const Drawing& drawing) {
  const std::string& script = drawing.script;
  const std::string begin = "# --- settings\n", end = "# --- end of settings\n";
  const auto first = script.find(begin), last = script.find(end);
  if (first == std::string::npos || last == std::string::npos || last < first)
    throw std::logic_error("a figure template lacks its settings block");
  const bool lines = script == kLinesTemplate;

  std::string settings = "FIGURE = {\n";
  for (const auto& [key, value] : drawing.figure.items())
    settings += fmt::format("    {}: {},\n", python_text(key), python_text(value));
  settings += "}\n";
  settings += dict("LINES",
                   lines ? "  # (label, d_dot) in the CSV: legend, colour, marker, dash"
                         : "  # label in the CSV: legend, colour, marker",
                   drawing.lines);
  settings +=
      dict("OVERLAYS", lines ? "  # (label, d_dot) in the CSV: colour" : "  # label in the CSV: legend",
           drawing.overlays);
  if (lines)
    settings += dict("OVERLAY_NAMES", "  # what stands before ':' in a label: legend", drawing.overlay_names);
  else
    settings += "DODGE = 0.05  # shifts labels apart where they share an x, as a factor\n";
  return script.substr(0, first + begin.size()) + settings + script.substr(last);
}

std::string what_they_are(const RecordList& records) {
  std::set<std::string> tasks;
  for (const Record* record : records)
    if (const auto task = config_text(*record, "task.name")) tasks.insert(*task);
  if (tasks.empty()) return "they name no task";
  return fmt::format("they have task.name = {}", fmt::join(tasks, ", "));
}

}  // namespace crosstalk
