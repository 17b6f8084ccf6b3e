// The figure of the final loss of update rules against the number of associations, the sum rule's floor behind.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/numbers/theory.h"

namespace crosstalk::figures {
namespace {

/// What the best answer without the order of writes costs on the sequences of these runs; the median over
/// seeds, as the lines are. Nothing where one of them is not known.
std::optional<double> evaluated_floor(const RecordList& records, const FigureInput& input,
                                      const Metric& metric) {
  std::vector<double> floors;
  for (const Record* record : results_of(records)) {
    const auto floor = input.options.evaluated_floor ? input.options.evaluated_floor(*record, metric.name)
                                                     : std::optional<double>();
    if (!floor) return std::nullopt;
    floors.push_back(*floor);
  }
  return floors.empty() ? std::nullopt : std::optional(median(floors));
}

/// One line for each setting among the memories that do not see the order of writes: it does not depend on
/// the memory, but on lengths and values.
void add_sum_rule_floor(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                        const Metric& metric) {
  std::map<std::vector<double>, std::string> known;
  bool any_evaluated = false, any_expected = false;
  for (const RecordLine& line : lines) {
    std::vector<double> floors, of_these_runs;
    for (const auto& [load, records] : line.points) {
      if (const auto floor = sum_rule_floor(*records.front(), input.options.memories))
        floors.insert(floors.end(), {load, *floor});
      if (const auto floor = evaluated_floor(records, input, metric))
        of_these_runs.insert(of_these_runs.end(), {load, *floor});
    }
    const bool evaluated = of_these_runs.size() == floors.size();
    if (evaluated) floors = of_these_runs;
    if (floors.empty() || known.count(floors) != 0) continue;
    (evaluated ? any_evaluated : any_expected) = true;
    const std::string label =
        known.empty() ? "theory: sum-rule floor" : "theory: sum-rule floor, " + line.label;
    known[floors] = label;
    for (std::size_t i = 0; i < floors.size(); i += 2)
      drawing.rows.push_back({label, 0, floors[i], 0, floors[i + 1]});
    drawing.overlays.push_back({label, 0, "#555555"});
  }
  if (known.empty()) {
    input.notes
        << "theory: the sum rule's floor binds memories that do not see the order of writes (as linear_attention and softmax) on task "
           "reassign; there are none here, and nothing is drawn behind\n";
    return;
  }
  drawing.overlay_names.emplace_back("theory", "Theory: best answer without order");
  if (any_evaluated)
    drawing.footnotes.emplace_back(
        "Theory: the mean of the values written to a key, on the sequences of these runs.");
  if (any_expected)
    drawing.footnotes.emplace_back(
        "Theory: the mean of the values written to a key, expected over all data; a run may lie on either side.");
}

}  // namespace

Figure updates() {
  return {
      .kind =
          {.name = "updates",
           .summary = "Final loss against associations of update rules, with the sum rule's floor",
           .x = kAssociations,
           .y =
               "The final loss, on a logarithmic axis that ends at half the threshold: what is below is solved. Thin line: the floor of "
               "memories that do not see the order of writes.",
           .statistic = kMedian,
           .threshold = kSolvedBelow,
           .options = {"--no-theory", "--published"},
           .columns = columns_over("associations")},
      .draw = [](const FigureInput& input) {
        return draw_loads(input, {"updates", false, true, add_sum_rule_floor});
      }};
}

}  // namespace crosstalk::figures
