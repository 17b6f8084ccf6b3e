// The figure of losses beyond the training length.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/csv.h"

namespace crosstalk::figures {
namespace {

Drawing draw_length(const FigureInput& input) {
  // Of tasks of single tokens the scaled accuracy is drawn: 0 is chance.
  const bool scaled =
      !lines_with(input, input.records, &Record::profiles, "scaled_accuracy_by_length").empty();
  const std::string metric = !input.options.metric.empty() ? input.options.metric
                             : scaled                      ? "scaled_accuracy"
                                                           : "loss";
  const std::string profile = metric + "_by_length";
  const auto lines = lines_with(input, input.records, &Record::profiles, profile);
  if (lines.empty())
    throw std::invalid_argument(fmt::format(
        "length needs records with a profile \"{}\" (eval.length_factors; --metric loss, accuracy, exact or scaled_accuracy); {}",
        profile, what_series_they_have(input.records)));
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "length_factor");
  drawing.needs = {"profiles." + profile};
  begin_lines(drawing, lines, input, "");
  for (const RecordLine& line : lines)
    add_series(drawing, line, &Record::profiles, profile, line.label, false);
  if (!input.options.published.empty())
    add_published_points(drawing, lines, input, {metric}, {"task.length"},
                         [](const PublishedPoint& point, const Record& record) {
                           const auto length = point.known.find("task.length");
                           const auto trained = config_number(record, "task.length");
                           return length == point.known.end() || !trained
                                      ? kNone
                                      : number_in(length->second).value_or(kNone) / *trained;
                         });
  auto range = x_range(drawing.rows);
  range = {std::max(range.first, 0.1) / 1.05, range.second * 1.05};
  const bool is_loss = metric == "loss";
  set_axes(drawing, "Length / training length",
           is_loss                       ? loss_axis("Evaluation", input)
           : metric == "scaled_accuracy" ? "Scaled accuracy, last quarter"
           : metric == "exact"           ? "Sequences with every answer right"
                                         : "Accuracy",
           "log2", is_loss ? "log" : "linear", range,
           is_loss ? value_range(drawing.rows, true) : std::pair{-0.02, 1.02});
  count_drawn_seeds(drawing, lines);
  add_empty_rows(drawing, lines);
  return drawing;
}

}  // namespace

Figure length() {
  return {
      .kind =
          {.name = "length",
           .summary = "Loss at multiples of the training length",
           .x = "Length of the test sequences as a multiple of the training length (eval.length_factors).",
           .y =
               "Loss, or --metric accuracy, exact or scaled_accuracy (0 is chance; the default where there is one).",
           .statistic = kMedian,
           .options = {"--published"},
           .columns = columns_over("length_factor")},
      .draw = draw_length};
}

}  // namespace crosstalk::figures
