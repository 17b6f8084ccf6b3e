// What differences between labels tell: Holm's correction over the rows of a drawing, and the seeds that it would need.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "plots/drawing/prepare.h"
#include "plots/report/suggest.h"

namespace crosstalk {

std::string lacking_seeds(std::size_t comparisons, int most_shared) {
  const int needed = fewest_seeds(comparisons);
  return most_shared >= needed ? ""
                               : fmt::format("{} comparison{} need{} {} shared seeds, {} more than there are",
                                             comparisons, comparisons == 1 ? "" : "s",
                                             comparisons == 1 ? "s" : "", needed, needed - most_shared);
}

std::string correct_differences(Drawing& drawing, bool figure) {
  std::vector<FigureRow*> rows;
  std::vector<double> p;
  int most = 0;
  for (FigureRow& row : drawing.rows)
    if (!std::isnan(row.p)) {
      rows.push_back(&row), p.push_back(row.p);
      most = std::max(most, row.n);
    }
  if (rows.empty()) return "";
  const std::vector<double> corrected = holm(p);
  bool any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i]->corrected = corrected[i];
    rows[i]->told = is_told(corrected[i], rows[i]->lo, rows[i]->hi);
    any = any || rows[i]->told;
  }
  const std::string lacking = lacking_seeds(p.size(), most);
  if (!lacking.empty())
    return drawing.told_by = fmt::format("No difference can be told from 0: {}.", lacking);
  const std::string test = fmt::format("signed-rank test, Holm over {}", p.size());
  drawing.told_by =
      any ? fmt::format("By the {}.", test) : fmt::format("No difference is told from 0 ({}).", test);
  return !any ? drawing.told_by
              : fmt::format("{}: difference told from 0 ({}).", figure ? "Filled" : "Bold", test);
}

std::vector<std::string> detect_text(const LabelledRecords& rows, const FigureOptions& options, double size) {
  std::vector<std::string> texts;
  for (const SuggestedFigure& figure : suggested_figures(rows, options, "difference", true)) {
    std::ostringstream unsaid;
    const Drawing drawing = compose_figure("difference", rows, figure.options, unsaid).drawing;
    const auto comparisons = static_cast<std::size_t>(
        std::ranges::count_if(drawing.rows, [](const FigureRow& row) { return row.p >= 0; }));
    std::vector<double> needed;
    const FigureRow* widest = nullptr;
    SeedRange range;
    for (const FigureRow& row : drawing.rows) {
      std::vector<double> differences;
      for (const SeedValue& one : row.seeds) differences.push_back(one.value);
      const int seeds = seeds_to_detect(differences, size, comparisons);
      if (seeds == 0) continue;
      range.add(row.n);
      if (needed.empty() || seeds > *std::ranges::max_element(needed)) widest = &row;
      needed.push_back(seeds);
    }
    const auto task = figure.options.where.find("task.name");
    std::string text = task == figure.options.where.end() ? "" : task->second + ": ";
    if (widest == nullptr) {
      texts.push_back(text + "no two labels have two seeds in common, whose spread says how many are needed");
      continue;
    }
    text += fmt::format("a difference of {} in {} needs about {:g} seeds to be told in four of five tables",
                        size, drawing.metric, std::ceil(median(needed)));
    if (comparisons > 1)
      text +=
          fmt::format(" of {} comparisons (from {:g} to {:g}, which {} and {} need{})", comparisons,
                      *std::ranges::min_element(needed), *std::ranges::max_element(needed), widest->label,
                      widest->against,
                      drawing.needs.empty() ? "" : fmt::format(" at {} = {}", drawing.needs[0], widest->x));
    texts.push_back(text + fmt::format("; by the spread of {} seeds{}{}", range.text(),
                                       figure.options.best.empty()
                                           ? ""
                                           : fmt::format(" at the {} of the lowest validation loss",
                                                         fmt::join(figure.options.best, ", ")),
                                       range.fewest < seeds_of_an_interval ? ": a rough estimate" : ""));
  }
  return texts;
}

}  // namespace crosstalk
