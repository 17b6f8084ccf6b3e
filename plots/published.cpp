// Published points behind our own. SPDX-License-Identifier: Apache-2.0
#include "results/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <ostream>
#include <set>

#include "plots/drawing.h"

namespace crosstalk {

void add_published(Drawing& drawing, const std::vector<RecordLine>& lines,
                   const std::map<std::string, LabelStyle>& styles, const std::filesystem::path& path,
                   int setting, std::ostream& notes) {
  std::map<std::string, std::int64_t> drawn;  // label -> d_dot of its first line
  for (const RecordLine& line : lines) drawn.emplace(line.label, line.d_dot);
  std::map<std::string, std::vector<FigureRow>> found;
  std::set<std::string> offered;
  for (const PublishedPoint& point : read_published(path)) {
    if (point.setting != setting) continue;
    offered.insert(point.label);
    if (drawn.count(point.label) == 0) continue;
    FigureRow row;
    row.label = "published: " + point.label;
    row.d_dot = drawn[point.label];
    row.x = static_cast<double>(point.associations);
    row.n = 1;
    row.median = point.loss;
    if (std::isfinite(row.median))  // a diverged run has no place on the axis
      found[point.label].push_back(row);
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
