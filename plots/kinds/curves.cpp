// The figure of learning curves.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

/// Whether the runs of a line end at different steps.
bool ends_apart(const RecordLine& line, const std::string& name) {
  std::set<double> ends;
  for (const auto& [unused, records] : line.points)
    for (const Record* record : drawable(records))
      if (const Series* series = find_series(*record, &Record::curves, name)) ends.insert(series->x.back());
  return ends.size() > 1;
}

/// The largest load among the records, unless they hold one only or none.
RecordList at_one_load(const FigureInput& input) {
  const char* key = "task.associations";
  std::set<double> loads;
  for (const Record* record : input.records)
    if (const auto load = config_number(*record, key)) loads.insert(*load);
  if (loads.size() < 2) return input.records;
  input.notes << fmt::format(
      "curves: {} numbers of associations; drawn at {} = {} (--where {}=... picks another)\n", loads.size(),
      key, *loads.rbegin(), key);
  RecordList kept;
  for (const Record* record : input.records)
    if (config_number(*record, key) == *loads.rbegin()) kept.push_back(record);
  return kept;
}

Drawing draw_curves(const FigureInput& input) {
  note_published(input, "curves");
  const std::string name = input.options.metric.empty() ? "eval_loss" : input.options.metric;
  const auto lines = lines_with(input, at_one_load(input), &Record::curves, name);
  if (lines.empty())
    throw std::invalid_argument(fmt::format(
        "curves needs records with a learning curve \"{}\" (eval_loss, eval_accuracy, eval_exact, train_loss); {}",
        name, what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "step");
  drawing.needs = {"curves." + name};
  begin_lines(drawing, lines, input, "");
  for (const RecordLine& line : lines) add_series(drawing, line, &Record::curves, name, line.label, true);
  const bool is_loss = name.ends_with("loss");
  const bool by_accuracy = solved_accuracy(input).has_value();
  const double threshold = name == "eval_loss" && !by_accuracy ? threshold_of(input) : kNone;
  set_axes(drawing, "Training step",
           name == "eval_loss"       ? loss_axis("Evaluation", input)
           : name == "train_loss"    ? loss_axis("Training", input)
           : name == "eval_accuracy" ? "Evaluation accuracy"
                                     : name,
           "linear", is_loss ? "log" : "linear", {0, x_range(drawing.rows).second},
           is_loss ? value_range(drawing.rows, true, threshold) : std::pair{-0.02, 1.02});
  if (std::isfinite(threshold)) drawing.figure["solved"] = threshold;
  count_drawn_seeds(drawing, lines);
  if (by_accuracy || (std::isfinite(threshold) && drawing.figure["ylim"][0].get<double>() <= threshold))
    drawing.footnotes.push_back(fmt::format("Solved: {}.", solved_text(input, {name, "", !by_accuracy})));
  if (std::ranges::any_of(lines, [&](const RecordLine& line) { return ends_apart(line, name); }))
    drawing.footnotes.emplace_back(
        "A run that stopped before the others of its line keeps its last value there.");
  add_empty_rows(drawing, lines);
  return drawing;
}

}  // namespace

Figure curves() {
  return {
      .kind =
          {.name = "curves",
           .summary = "Learning curves: evaluation loss against training step",
           .x = "Training step.",
           .y = "The curve of --metric: eval_loss (default), eval_accuracy, eval_exact or "
                "train_loss; at the largest number of associations unless --where picks another.",
           .statistic =
               "Line: the median over seeds at each step; band: its interval. A run that stopped early keeps its last value.",
           .threshold = kSolvedBelow,
           .columns = columns_over("step")},
      .draw = draw_curves};
}

}  // namespace crosstalk::figures
