// Text of a figure's CSV and script.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "plots/drawing/drawing.h"
#include "results/csv.h"

namespace crosstalk {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string csv_number(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

std::string dict(const char* name, const char* comment, const Pairs& entries) {
  std::string text = fmt::format("{} = {{{}\n", name, comment);
  for (const auto& [key, value] : entries) text += fmt::format("    {}: {},\n", key, value);
  return text + "}\n";
}

}  // namespace

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string python_text(const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (value.is_null()) return "None";
  if (value.is_array()) {
    std::vector<std::string> items;
    for (const auto& item : value) items.push_back(python_text(item));
    return fmt::format("[{}]", fmt::join(items, ", "));
  }
  // JSON strings are Python strings as long as nothing is written as a pair of \u escapes.
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string replaced(const std::string& script, const std::string& what, const std::string& by) {
  const std::string begin = "# --- " + what + "\n", end = "# --- end of " + what + "\n";
  const auto first = script.find(begin), last = script.find(end);
  if (first == std::string::npos || last == std::string::npos || last < first)
    throw std::logic_error("a figure template lacks its block of " + what);
  return script.substr(0, first + begin.size()) + by + script.substr(last);
}

std::string python_key(const std::string& label, std::int64_t d_dot) {
  return fmt::format("({}, {})", python_text(label), d_dot);
}

std::vector<std::vector<std::string>> csv_cells(const Drawing& drawing, const ByColumns& by) {
  const bool selected =
      std::ranges::any_of(drawing.rows, [](const auto& row) { return !row.selected.empty(); });
  const std::string facet = drawing.figure.value("facet", std::string());
  std::vector<std::string> cells = {"label", "d_dot", drawing.x_column, "n", drawing.middle, "lo", "hi"};
  if (drawing.capacity_columns) cells.insert(cells.end(), {"censored", "unsolved"});
  for (const std::string& key : by.keys) cells.push_back(key);
  if (!facet.empty()) cells.push_back(facet);
  const bool metric = std::ranges::any_of(drawing.rows, [](const auto& row) { return !row.metric.empty(); });
  if (metric) cells.emplace_back("metric");
  const bool against = std::ranges::any_of(drawing.rows, [](const auto& row) { return !std::isnan(row.p); });
  if (against) cells.insert(cells.end(), {"against", "wins", "p", "p_holm", "told"});
  const bool chance = std::ranges::any_of(drawing.rows, [](const auto& row) { return row.at_chance >= 0; });
  if (chance) cells.emplace_back("at_chance");
  if (selected) cells.emplace_back("selected");
  std::vector<std::vector<std::string>> lines = {cells};
  for (const FigureRow& row : drawing.rows) {
    cells = {row.label,
             row.d_dot > 0 ? fmt::format("{}", row.d_dot) : "",
             csv_number(row.x),
             fmt::format("{}", row.n),
             csv_number(row.median),
             csv_number(row.lo),
             csv_number(row.hi)};
    if (drawing.capacity_columns)
      cells.insert(cells.end(), {row.censored ? "1" : "0", csv_number(row.unsolved)});
    const auto values = by.values.find(row.label);
    for (std::size_t i = 0; i < by.keys.size(); ++i)
      cells.push_back(values == by.values.end() ? std::string() : values->second[i]);
    if (!facet.empty()) cells.push_back(row.facet);
    if (metric) cells.push_back(row.metric);
    if (against && std::isnan(row.p)) cells.resize(cells.size() + 5);
    if (against && !std::isnan(row.p))
      cells.insert(cells.end(), {row.against, fmt::format("{}", row.wins), csv_number(row.p),
                                 csv_number(row.corrected), row.told ? "1" : "0"});
    if (chance) cells.push_back(row.at_chance < 0 ? "" : fmt::format("{}", row.at_chance));
    if (selected) cells.push_back(row.selected);
    lines.push_back(cells);
  }
  return lines;
}

std::string csv_text(const Drawing& drawing, const ByColumns& by) {
  std::string text;
  for (std::vector<std::string>& cells : csv_cells(drawing, by)) {
    for (std::string& cell : cells) cell = csv_cell(cell);
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string footnote_line(const Drawing& drawing, double inches) {
  const auto most = static_cast<std::size_t>(inches * 72 / 3.6);  // points of a letter, at 6.5 points
  const auto is_doubt = [&](const std::string& one) {
    return std::ranges::find(drawing.doubts, one) != drawing.doubts.end();
  };
  std::vector<std::string> order = drawing.footnotes;
  if (order.empty()) return "";
  const auto others = std::stable_partition(order.begin() + 1, order.end(), is_doubt);
  const auto length = [&] {
    return std::accumulate(order.begin(), others, std::size_t{0},
                           [](std::size_t sum, const std::string& one) { return sum + one.size() + 1; });
  };
  for (auto sentence = order.begin(); sentence != others && length() > most + 1; ++sentence)
    if (const auto brief = drawing.brief.find(*sentence); brief != drawing.brief.end())
      *sentence = brief->second;
  std::string line = fmt::format("{}", fmt::join(order.begin(), others, " "));
  for (auto sentence = others; sentence != order.end(); ++sentence)
    if (line.size() + 1 + sentence->size() <= most) line += " " + *sentence;
  return line;
}

std::string script_text(const Drawing& drawing, const std::map<std::string, LabelStyle>& styles,
                        const std::string& footnote) {
  const bool lines = !drawing.of_points();

  std::string settings = "FIGURE = {\n";
  for (const auto& [key, value] : drawing.figure.items())
    settings += fmt::format("    {}: {},\n", python_text(key), python_text(value));
  settings += fmt::format("    \"footnote\": {},\n", python_text(footnote));
  settings += "}\n";
  Pairs entries;
  for (const LineEntry& line : drawing.lines) {
    const LabelStyle& style = styles.at(line.label);
    const std::string name = python_text(legend_name(style.name, line.size, line.count)),
                      look = fmt::format("{}, {}", python_text(style.colour), python_text(style.marker));
    if (lines)
      entries.emplace_back(python_key(line.label, line.d_dot),
                           fmt::format("({}, {}, {})", name, look, python_text(line.dash)));
    else
      entries.emplace_back(python_text(line.label), fmt::format("({}, {})", name, look));
  }
  settings += dict("LINES",
                   lines ? "  # (label, d_dot) in the CSV, 0 for any d_dot: legend, colour, marker, dash"
                         : "  # label in the CSV: legend, colour, marker",
                   entries);
  entries.clear();
  for (const Overlay& overlay : drawing.overlays)
    entries.emplace_back(lines ? python_key(overlay.label, overlay.d_dot) : python_text(overlay.label),
                         python_text(overlay.colour));
  settings += dict("OVERLAYS",
                   lines ? "  # (label, d_dot) in the CSV: colour" : "  # label in the CSV: legend", entries);
  if (lines) {
    entries.clear();
    for (const auto& [kind, name] : drawing.overlay_names)
      entries.emplace_back(python_text(kind), python_text(name));
    settings += dict("OVERLAY_NAMES", "  # what stands before ':' in a label: legend", entries);
  }
  return replaced(drawing.script, "settings", settings);
}

}  // namespace crosstalk
