// Curves of the runs that train while a page is written.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "plots/report/html.h"
#include "plots/report/report_parts.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostTraining = 200;

/// One curve between its least and its largest value, which its name tells too.
std::string curve_svg(const Record& record, const char* name, const char* words) {
  constexpr double kWidth = 160, kHeight = 36, kMargin = 2;
  const auto found = record.curves.find(name);
  if (found == record.curves.end() || found->second.y.empty()) return "";
  const Series& curve = found->second;
  const auto [least, most] = std::minmax_element(curve.y.begin(), curve.y.end());
  const double first = curve.x.front(), wide = std::max(1., curve.x.back() - first),
               high = *most > *least ? *most - *least : 1;
  std::string points;
  for (std::size_t i = 0; i < curve.y.size(); ++i)
    points += fmt::format("{:.1f},{:.1f} ", kMargin + (kWidth - 2 * kMargin) * (curve.x[i] - first) / wide,
                          kHeight - kMargin - (kHeight - 2 * kMargin) * (curve.y[i] - *least) / high);
  return fmt::format(
      "<svg role=\"img\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" aria-label=\"{2}, {3} points from "
      "{4:.4g} to {5:.4g}\"><polyline fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.5\" points=\"{6}\"/></svg> {5:.4g}",
      kWidth, kHeight, words, curve.y.size(), curve.y.front(), curve.y.back(), points);
}

}  // namespace

std::string training_section(const std::map<std::string, Record>& training, const Names& names) {
  if (training.empty()) return "";
  RecordList runs;
  for (const auto& [id, record] : training) runs.push_back(&record);
  std::ranges::stable_sort(runs, [](const Record* a, const Record* b) {
    return std::pair(a->label, a->seed) < std::pair(b->label, b->seed);
  });
  std::string text = fmt::format(
      "<section aria-labelledby=\"training\">\n<h2 id=\"training\">Training now</h2>\n<div class=\"scroll\"><table>\n"
      "<caption>{} without a record when this page was written: validation loss and accuracy so far, each between its "
      "least and its largest value, and the last one.</caption>\n<thead><tr><th scope=\"col\">Label</th><th scope=\"col\">Seed"
      "</th><th scope=\"col\">Step</th><th scope=\"col\">Loss</th><th scope=\"col\">Accuracy</th></tr></thead>\n<tbody>\n",
      plural(runs.size(), "run"));
  for (std::size_t i = 0; i < std::min(kMostTraining, runs.size()); ++i)
    text += fmt::format(
        "<tr><th scope=\"row\">{}</th><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>\n",
        html_of(names.of(runs[i]->label)), runs[i]->seed, runs[i]->steps,
        curve_svg(*runs[i], "eval_loss", "Validation loss"),
        curve_svg(*runs[i], "eval_accuracy", "Accuracy"));
  return text + "</tbody></table></div>\n</section>\n";
}

}  // namespace crosstalk
