// The figure of the final loss against the number of associations, rank bounds behind.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/numbers/theory.h"

namespace crosstalk::figures {
namespace {

/// The bound of each memory that has one, within the loads of its own records: from where it leaves zero, and
/// on recall at whole loads between, for a smooth line.
void add_rank_bounds(Drawing& drawing, const std::vector<RecordLine>& lines, const FigureInput& input,
                     const Metric&) {
  bool any = false, expected = false;
  for (const RecordLine& line : lines) {
    const Record& record = *line.points.begin()->second.front();
    if (!rank_bound(record, input.options.memories)) continue;
    const double first = line.points.begin()->first, last = line.points.rbegin()->first;
    std::set<double> places;
    for (const auto& [load, records] : line.points) places.insert(load);
    if (config_text(record, "task.name") == "recall")
      for (int i = 0; i <= 80; ++i) places.insert(std::round(first + (last - first) * i / 80));
    const auto d_dot = static_cast<double>(line.d_dot);
    if (d_dot > first && d_dot < last) places.insert(d_dot);
    const std::string label = "theory: rank bound, " + line.label;
    std::vector<FigureRow> rows;
    for (const double load : places) {
      const double bound = rank_bound_at(record, load, input.options.memories).value_or(0);
      if (bound <= 0 && !rows.empty() && rows.back().median <= 0) rows.clear();  // zero says nothing
      rows.push_back({label, line.d_dot, load, 0, bound});
    }
    if (rows.back().median <= 0) continue;  // it is zero at all of these loads
    drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
    drawing.overlays.push_back({label, line.d_dot, input.styles.at(line.label).colour});
    any = true;
    expected = expected || config_text(record, "task.name") == "reassign";  // values coincide by chance
  }
  if (any) drawing.overlay_names.emplace_back("theory", expected ? "Theory: rank" : "Theory: rank bound");
  if (expected)
    drawing.footnotes.emplace_back(
        "Theory: the smallest loss of a read-out of rank $d_{\\mathrm{dot}}$, expected over all data; a run may lie on either side.");
}

}  // namespace

Figure capacity() {
  return {.kind = {.name = "capacity",
                   .summary = "Final loss against associations; each memory breaks down at its own d_dot",
                   .x = kAssociations,
                   .y = "The final loss: eval_loss, with --best test_loss; or any --metric. Triangles mark "
                        "d_dot, thin lines the rank bound where it is proven ('crosstalk describe loss').",
                   .statistic = kMedian,
                   .threshold = kSolvedBelow,
                   .options = {"--no-theory", "--published"},
                   .columns = columns_over("associations")},
          .draw = [](const FigureInput& input) {
            return draw_loads(input, {"capacity", true, false, add_rank_bounds});
          }};
}

}  // namespace crosstalk::figures
