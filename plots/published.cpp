// Published points (CSV: label, S_unique_keys, final_eval_loss, setting; further columns are ignored).
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <ostream>
#include <set>
#include <stdexcept>

#include "plots/drawing.h"

namespace crosstalk {
namespace {

std::vector<std::string> split_fields(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"')
      quoted = !quoted;
    else if (c == ',' && !quoted)
      fields.emplace_back();
    else if (c != '\r')
      fields.back() += c;
  }
  return fields;
}

}  // namespace

void add_published(Drawing& drawing, const std::vector<RecordLine>& lines,
                   const std::map<std::string, LabelStyle>& styles, const std::filesystem::path& path,
                   int setting, std::ostream& notes) {
  std::ifstream file(path);
  if (!file)
    throw std::invalid_argument(fmt::format("published points: \"{}\" cannot be read", path.string()));
  std::map<std::string, std::size_t> columns;
  std::map<std::string, std::int64_t> drawn;  // label -> d_dot of its first line
  for (const RecordLine& line : lines) drawn.emplace(line.label, line.d_dot);
  std::map<std::string, std::vector<FigureRow>> found;
  std::set<std::string> offered;

  std::string text;
  for (int number = 1; std::getline(file, text); ++number) {
    if (text.empty() || text == "\r" || text.front() == '#') continue;
    const auto fields = split_fields(text);
    if (columns.empty()) {
      for (std::size_t i = 0; i < fields.size(); ++i) columns[fields[i]] = i;
      for (const char* name : {"label", "S_unique_keys", "final_eval_loss", "setting"})
        if (columns.count(name) == 0)
          throw std::invalid_argument(
              fmt::format("{}:{}: published points need a column \"{}\"; there are {}", path.string(), number,
                          name, fmt::join(fields, ", ")));
      continue;
    }
    const auto field = [&](const char* name) {
      const std::size_t column = columns.at(name);
      return column < fields.size() ? fields[column] : std::string();
    };
    const auto value = [&](const char* name) {
      const std::string content = field(name);
      double parsed = 0;
      const auto [end, error] = std::from_chars(content.data(), content.data() + content.size(), parsed);
      if (error != std::errc() || end != content.data() + content.size())
        throw std::invalid_argument(
            fmt::format("{}:{}: {} is \"{}\", which is not a number", path.string(), number, name, content));
      return parsed;
    };
    if (value("setting") != setting) continue;
    const std::string label = field("label");
    offered.insert(label);
    if (drawn.count(label) == 0) continue;
    FigureRow row;
    row.label = "published: " + label;
    row.d_dot = drawn[label];
    row.x = value("S_unique_keys");
    row.n = 1;
    row.median = value("final_eval_loss");
    if (std::isfinite(row.median)) found[label].push_back(row);  // a diverged run has no place on the axis
  }
  if (found.empty()) {
    notes << fmt::format("published points: none of setting {} has a label of these records; it has {}\n",
                         setting, offered.empty() ? "no rows" : fmt::format("{}", fmt::join(offered, ", ")));
    return;
  }
  for (const RecordLine& line : lines) {
    auto entry = found.find(line.label);
    if (entry == found.end()) continue;
    auto& rows = entry->second;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const FigureRow& a, const FigureRow& b) { return a.x < b.x; });
    drawing.overlays.emplace_back(python_key(rows.front().label, rows.front().d_dot),
                                  python_text(styles.at(line.label).colour));
    drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
    found.erase(entry);
  }
  drawing.overlay_names.emplace_back(python_text("published"), python_text("Published"));
}

}  // namespace crosstalk
