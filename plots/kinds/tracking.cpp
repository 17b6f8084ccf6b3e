// The figure of accuracy against the number of operations.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

/// The task's chance level as a flat line.
void add_chance(Drawing& drawing, const RecordList& records, std::pair<double, double> xlim) {
  std::vector<double> chances;
  for (const Record* record : records)
    if (const double chance = metric_in(*record, "chance_accuracy"); !std::isnan(chance))
      chances.push_back(chance);
  if (const double chance = median(chances); std::isfinite(chance))
    add_level(drawing, "chance", "Chance", chance, xlim);
}

/// Of tasks whose sequences have one answer each, at their end.
Groups groups_of_lengths(const std::vector<RecordLine>& lines, const std::string& profile) {
  std::vector<const Series*> all;
  for (const RecordLine& line : lines)
    for (const auto& [unused, records] : line.points)
      for (const Record* record : records)
        if (const Series* series = find_series(*record, &Record::profiles, profile)) {
          if (config_text(*record, "task.query_at") != "end") return {};
          all.push_back(series);
        }
  return groups_of(all);
}

Drawing draw_tracking(const FigureInput& input) {
  note_published(input, "tracking");
  const bool by_operations = std::ranges::any_of(input.records, [](const Record* record) {
    return find_series(*record, &Record::profiles, "accuracy_by_operations") != nullptr;
  });
  const std::string by = by_operations ? "by_operations" : "by_position";
  const std::string profile = "accuracy_" + by, exact = "exact_" + by;
  const auto lines = lines_with(input, input.records, &Record::profiles, profile);
  if (lines.empty())
    throw std::invalid_argument(fmt::format(
        "tracking needs records with a profile accuracy_by_operations or accuracy_by_position (tasks swap and words); {}",
        what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, by_operations ? "operations" : "position");
  drawing.needs = {"profiles." + profile};
  begin_lines(drawing, lines, input, "");
  const Groups groups = by_operations ? Groups() : groups_of_lengths(lines, profile);
  std::set<double> trained;
  for (const RecordLine& line : lines) {
    add_series(drawing, line, &Record::profiles, profile, line.label, false, groups);
    for (const auto& [unused, records] : line.points)
      for (const Record* record : records)
        if (const auto length = config_number(*record, by_operations ? "task.operations" : "task.length"))
          trained.insert(*length);
  }
  for (const RecordLine& line : lines) {
    if (groups.width > 0) break;  // an answer has none before it
    const std::string label = "prefix-exact: " + line.label;
    const std::size_t before = drawing.rows.size();
    add_series(drawing, line, &Record::profiles, exact, label, false);
    if (drawing.rows.size() == before) continue;
    drawing.overlays.push_back({label, line.d_dot, input.styles.at(line.label).colour});
    if (drawing.overlay_names.empty())
      drawing.overlay_names.emplace_back("prefix-exact", "Thin: all answers so far correct");
  }
  const auto range = x_range(drawing.rows);
  set_axes(drawing,
           by_operations      ? "Operations before the query"
           : groups.width > 0 ? "Tokens before the answer"
                              : "Position",
           "Accuracy", "linear", "linear", range, {-0.02, 1.02});
  drawing.figure["vertical"] = std::vector<double>(trained.begin(), trained.end());
  drawing.figure["vertical_name"] = "Training length";
  count_drawn_seeds(drawing, lines);
  if (groups.width > 0)
    drawing.footnotes.push_back(fmt::format("Points: sequences of {:g} neighbouring lengths.", groups.width));
  if (input.options.theory) add_chance(drawing, input.records, range);
  add_empty_rows(drawing, lines);
  return drawing;
}

}  // namespace

Figure tracking() {
  return {
      .kind =
          {.name = "tracking",
           .summary = "Accuracy against the number of operations before the query",
           .x = "Operations before the query (task swap), or the position of the token (task words); where "
                "a sequence has one answer (task arithmetic) its tokens, sixteen groups of lengths.",
           .y =
               "Accuracy there; thin lines: the share of sequences with every answer so far right. Dotted line: the training length.",
           .statistic = kMedian,
           .options = {"--no-theory"},
           .columns = columns_over("operations")},
      .draw = draw_tracking};
}

}  // namespace crosstalk::figures
