// Published points behind our own.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "plots/drawing/drawing.h"

namespace crosstalk {

bool has_label(const FigureInput& input, const std::string& label) {
  return std::ranges::any_of(input.records, [&](const Record* record) {
    return record->label == label || (!input.options.by.empty() && record->label.starts_with(label + ", "));
  });
}

bool agrees_but_for_memory(const Record& record, const PublishedPoint& point,
                           const std::vector<std::string>& own) {
  if (record.status == RunStatus::failed) return false;
  PublishedPoint place = point;
  place.label = record.label;
  place.d_dot = 0;
  std::erase_if(place.known, [&](const auto& known) {
    return known.first.starts_with("memory.") || std::ranges::find(own, known.first) != own.end();
  });
  return differences(record, place, true).empty();
}

void add_from_elsewhere(Drawing& drawing, const FigureInput& input, const PublishedPoint& point, double x,
                        double y) {
  const std::string label = "published: " + point.label;
  const LabelStyle& style = input.styles.at(point.label);
  const auto is_it = [&](const auto& overlay) {
    return overlay.label == label && overlay.d_dot == point.d_dot;
  };
  if (std::ranges::none_of(drawing.overlays, is_it))
    drawing.overlays.push_back({label, point.d_dot, style.colour});
  const std::pair<std::string, std::string> named = {label, style.name + " (published)"};
  if (std::ranges::find(drawing.overlay_names, named) == drawing.overlay_names.end())
    drawing.overlay_names.push_back(named);
  drawing.rows.push_back({label, point.d_dot, x, 1, y});
}

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
  std::size_t without_loss = 0;
  for (const PublishedPoint& point : input.options.published) {
    const auto task = point.known.find("task.name");
    const bool is_here = task == point.known.end() || tasks.count(task->second) != 0;
    without_loss += is_here && !point.has_loss ? 1 : 0;
    if (point.has_loss && is_here) points.push_back(point);
  }
  std::set<const PublishedPoint*> drawn;
  double last = 0;
  for (const RecordLine& line : lines) {
    last = std::max(last, line.points.rbegin()->first);
    std::vector<FigureRow> rows;
    for (const PublishedPoint& point : points) {
      const bool here = std::ranges::any_of(line.points, [&](const auto& place) {
        return std::ranges::any_of(place.second, [&](const Record* record) {
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
    std::ranges::stable_sort(rows, [](const FigureRow& a, const FigureRow& b) { return a.x < b.x; });
    drawing.overlays.push_back({rows.front().label, line.d_dot, styles.at(line.label).colour});
    drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
  }
  if (!drawn.empty()) drawing.overlay_names.emplace_back("published", "Published");
  std::vector<PublishedPoint> alone;  // of these some have no run here
  std::size_t beyond = 0;
  for (const PublishedPoint& point : points) {
    const bool from_elsewhere = drawn.count(&point) == 0 && !has_label(input, point.label) &&
                                std::ranges::any_of(input.records, [&](const Record* record) {
                                  return agrees_but_for_memory(*record, point, {});
                                });
    if (!from_elsewhere) {
      alone.push_back(point);
    } else if (std::isfinite(point.loss)) {
      add_from_elsewhere(drawing, input, point, static_cast<double>(point.associations), point.loss);
    }
    if (from_elsewhere || drawn.count(&point) != 0)
      beyond += static_cast<double>(point.associations) > last ? 1 : 0;
  }
  for (const std::string& text : without_partner(alone, records, true)) input.notes << text << '\n';
  if (beyond > 0)
    input.notes << fmt::format(
        "{} published points lie beyond the largest number of associations of these runs ({}), where the axis ends\n",
        beyond, last);
  if (without_loss > 0)
    input.notes << fmt::format("{} published points have no eval_loss and task.associations; left out\n",
                               without_loss);
  if (points.empty())
    input.notes << fmt::format("none of the {} published points is of this task\n",
                               input.options.published.size());
}

}  // namespace crosstalk
