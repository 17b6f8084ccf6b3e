// Published points behind our own.
// SPDX-License-Identifier: Apache-2.0
#include "results/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <set>

#include "plots/drawing.h"

namespace crosstalk {

void add_published(Drawing& drawing, const std::vector<RecordLine>& lines,
                   const std::map<std::string, LabelStyle>& styles, const FigureInput& input) {
  // Points of another task are another figure's.
  std::set<std::string> tasks;
  std::map<std::string, Record> records;
  for (const Record* record : input.records) {
    tasks.insert(config_text(*record, "task.name").value_or(""));
    records.emplace(record->id + '\t' + record->label, *record);
  }
  std::vector<PublishedPoint> points;
  for (const PublishedPoint& point : input.options.published) {
    const auto task = point.known.find("task.name");
    if (point.has_loss && (task == point.known.end() || tasks.count(task->second) != 0))
      points.push_back(point);
  }
  std::set<const PublishedPoint*> drawn;
  for (const RecordLine& line : lines) {
    std::vector<FigureRow> rows;
    for (const PublishedPoint& point : points) {
      const bool here = std::any_of(line.points.begin(), line.points.end(), [&](const auto& place) {
        return std::any_of(place.second.begin(), place.second.end(), [&](const Record* record) {
          return record->status != RunStatus::failed && differences(*record, point, true).empty();
        });
      });
      if (!here || drawn.count(&point) != 0) continue;
      drawn.insert(&point);
      if (!std::isfinite(point.loss)) continue;  // a diverged run has no place on the axis
      FigureRow row{"published: " + line.label, line.d_dot, static_cast<double>(point.associations), 1,
                    point.loss};
      rows.push_back(row);
    }
    if (rows.empty()) continue;
    std::stable_sort(rows.begin(), rows.end(),
                     [](const FigureRow& a, const FigureRow& b) { return a.x < b.x; });
    drawing.overlays.push_back({rows.front().label, line.d_dot, styles.at(line.label).colour});
    drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
  }
  for (const std::string& text : without_partner(points, records, true)) input.notes << text << '\n';
  if (points.empty())
    input.notes << fmt::format("none of the {} published points is of this task\n",
                               input.options.published.size());
  if (!drawn.empty()) drawing.overlay_names.emplace_back("published", "Published");
}

}  // namespace crosstalk
