// The figure of wrong answers: which kinds of mistake each memory makes, as shares of the queries of the test split.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"

namespace crosstalk::figures {
namespace {

struct Kind {
  const char *metric, *name, *colour;
};
/// In the order of the bars: what the key once had, the sequence, the rest.
constexpr Kind kKinds[] = {{"error_oldest", "Oldest value of the key", "#0072B2"},
                           {"error_between", "Another old value of the key", "#56B4E9"},
                           {"error_newest", "Newest value written to the key", "#009E73"},
                           {"error_other_context", "Same key in another context", "#CC79A7"},
                           {"error_other_value", "Value of another key", "#E69F00"},
                           {"error_key", "The key itself", "#882255"},
                           {"error_never", "Never written", "#999999"},
                           {"error_tie", "Right, but not alone", "#D8D8D8"}};
constexpr std::size_t kMostPanels = 12, kMostLines = 60;
constexpr double kSeen = 0.002;  ///< a share that is a bar; a kind with less everywhere has no entry

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return values.empty() ? kNone : sum / static_cast<double>(values.size());
}

/// Records with mistakes; diverged runs answer nothing.
std::vector<RecordLine> lines_of(const RecordList& records, const std::map<std::string, LabelStyle>& styles) {
  auto lines = make_lines(
      records,
      [](const Record& record) {
        return record.metrics.contains("error_never") ? std::optional<double>(0) : std::nullopt;
      },
      "", Apart::label);
  sort_lines(lines, styles);
  return lines;
}

Drawing draw_errors(const FigureInput& input) {
  const std::string& facet = input.options.facet;
  if (!input.options.metric.empty())
    throw std::invalid_argument(
        "errors draws the shares error_...; leave out --metric (table final takes it)");
  Drawing drawing = begin_drawing(kErrorsTemplate, input.options, "test_accuracy");
  drawing.needs = {};
  drawing.metric = "error_never";
  drawing.middle = "mean";
  drawing.figure["xlabel"] = "Share of test queries, answered wrongly";
  drawing.figure["facet"] = facet;
  drawing.figure["panels"] = nlohmann::ordered_json::array();
  std::set<std::string> named, kinds;
  std::vector<RecordLine> all;
  double most = 0;
  for (const auto& [value, part] : parts_by(input.records, facet)) {
    const auto lines = lines_of(part, input.styles);
    if (lines.empty()) continue;
    drawing.figure["panels"].push_back(
        {value, facet.empty() ? "" : fmt::format("{} = {}", symbol_of(facet), value)});
    for (const RecordLine& line : lines) {
      all.push_back(line);
      double total = 0;
      for (const Kind& kind : kKinds) {
        std::vector<double> shares, right;
        for (const auto& [place, records] : line.points)
          for (const Record* record : drawable(records)) {
            shares.push_back(metric_in(*record, kind.metric));
            right.push_back(metric_in(*record, "test_accuracy"));
          }
        FigureRow row{line.label, 0, mean(right), static_cast<int>(shares.size()), mean(shares)};
        if (!shares.empty()) {
          row.lo = *std::ranges::min_element(shares);
          row.hi = *std::ranges::max_element(shares);
        }
        row.facet = value, row.metric = kind.metric;
        if (row.median >= kSeen) kinds.insert(kind.metric);
        total += row.median > 0 ? row.median : 0;
        drawing.rows.push_back(row);
      }
      most = std::max(most, total);
    }
  }
  if (all.empty())
    throw std::invalid_argument(fmt::format(
        "errors needs records of recall tasks with the metrics error_... (runs that were trained before "
        "records had them lack these: train them again); {}",
        what_they_are(input.records)));
  sort_lines(all, input.styles);
  const int expected = expected_seeds(all, input.options.expected_seeds);
  note_missing(all, expected, "", input.notes);
  for (const RecordLine& line : all)
    if (named.insert(line.label).second)
      drawing.lines.push_back({line.label, 0, "", count_seeds(line, expected), "-"});
  if (drawing.figure["panels"].size() > kMostPanels || named.size() > kMostLines)
    throw std::invalid_argument(fmt::format(
        "errors: {} panels of {} memories do not fit (at most {} of {}); choose some with --where",
        drawing.figure["panels"].size(), named.size(), kMostPanels, kMostLines));
  drawing.figure["kinds"] = nlohmann::ordered_json::array();
  for (const Kind& kind : kKinds)
    if (kinds.contains(kind.metric)) drawing.figure["kinds"].push_back({kind.metric, kind.name, kind.colour});
  // Room to see small shares, in tenths.
  drawing.figure["xlim"] = {0, std::clamp(std::ceil(10 * most + 0.01) / 10, 0.1, 1.0)};
  SeedRange seeds;
  for (const FigureRow& row : drawing.rows) seeds.add(row.n);
  drawing.footnotes.push_back(
      seeds.most <= 1
          ? "One seed; what is missing to 1 was answered rightly."
          : fmt::format("Means over {} seeds; what is missing to 1 was answered rightly.", seeds.text()));
  drawing.lines_may_coincide = false;
  return drawing;
}

}  // namespace

Figure errors() {
  return {
      .kind =
          {.name = "errors",
           .summary = "Kinds of wrong answers: an old value of the key, another key's, never written, ...",
           .x =
               "Share of the queries of the test split that were answered wrongly, a bar for each memory; a panel for each value of --facet KEY.",
           .y =
               "Kinds of wrong answers, the columns error_... of an export: the first that applies to what was answered.",
           .statistic =
               "Mean over the seeds that did not diverge (shares of medians would not add up); lo and hi are their range.",
           .columns = {"label", "d_dot", "test_accuracy", "n", "mean", "lo", "hi", "metric"}},
      .draw = draw_errors,
      .has_own_panels = true};
}

}  // namespace crosstalk::figures
