// The figure of learning-rate windows: a metric, the share of runs that solve the task and the norm of the gradient against
// the learning rate, as in Okpekpe and Orvieto 2025 (arXiv 2508.19029).
// SPDX-License-Identifier: Apache-2.0
#include "plots/drawing/window.h"
#include "plots/kinds/figure_file.h"
#include "results/numbers/verdict.h"

namespace crosstalk::figures {
namespace {

constexpr std::size_t kWindowLines = 8;  // in one panel; beyond it each memory has one
constexpr std::size_t kWindowPanels = 60;

using PanelLines = std::vector<std::pair<std::string, std::vector<RecordLine>>>;

/// What the gradients of a run were like: the median over training of the medians, and the largest of all.
double typical_norm(const Record& record) {
  const auto curve = record.curves.find("gradient_norm_median");
  return curve == record.curves.end() ? kNone : median(curve->second.y);
}
double largest_norm(const Record& record) {
  const auto curve = record.curves.find("gradient_norm_largest");
  double most = kNone;
  if (curve != record.curves.end())
    for (const double y : curve->second.y) most = std::isnan(most) || y > most ? y : most;
  return most;
}

/// A row of the values that `value` has of these records.
template <class Value>
FigureRow row_with(const RecordLine& line, double x, const RecordList& records, const Value& value) {
  FigureRow row{line.label, 0, x, 0};
  std::vector<double> values;
  for (const Record* record : results_of(records))
    if (const double y = value(*record); !std::isnan(y)) values.push_back(y);
  if (values.empty()) return row;
  const Summary summary = summarise(values);
  row.n = summary.n, row.median = summary.median, row.lo = summary.lo, row.hi = summary.hi;
  return row;
}

/// The rate that --best would take of a line; NaN where no two were tried.
double chosen_rate(const RecordLine& line, BestBy by) {
  if (line.points.size() < 2) return kNone;
  RecordList all;
  for (const auto& [rate, records] : line.points) all.insert(all.end(), records.begin(), records.end());
  const RecordList best = choose_best(all, {kLearningRate}, by);
  return best.empty() ? kNone : learning_rate_of(*best.front()).value_or(kNone);
}

/// The lines of each panel: all of them; or of each value of the facet; or each in its own.
PanelLines panels_of(const FigureInput& input, const std::string& facet) {
  PanelLines panels;
  for (const auto& [value, part] : parts_by(input.records, facet)) {
    auto lines = make_lines(part, learning_rate_of, kLearningRate, Apart::label);
    if (lines.empty()) continue;
    sort_lines(lines, input.styles);
    panels.emplace_back(value, std::move(lines));
  }
  if (facet == "label")
    std::ranges::stable_sort(panels, [&](const auto& a, const auto& b) {
      return input.styles.at(a.first).rank < input.styles.at(b.first).rank;
    });
  return panels;
}

void add_rows(Drawing& drawing, const RecordLine& line, const std::string& panel, const Metric& metric,
              BestBy by, const std::string& colour) {
  const auto add = [&](FigureRow row, const std::string& label, const std::string& what) {
    row.label = label, row.metric = what;
    if (panel != line.label) row.facet = panel;
    drawing.rows.push_back(std::move(row));
  };
  const double chosen = chosen_rate(line, by);
  const std::string of_seed = "seed: " + line.label, of_choice = "chosen: " + line.label;
  for (const auto& [rate, records] : line.points) {
    const FigureRow row = row_of(line, rate, records, metric);
    add(row, line.label, metric.name);
    if (rate == chosen) add({of_choice, 0, rate, row.n, row.median}, of_choice, metric.name);
    for (const Record* record : results_of(records))
      if (const double y = value_of(*record, metric); std::isfinite(y))
        add({of_seed, 0, rate, 1, y}, of_seed, metric.name);
    FigureRow solved{line.label, 0, rate, 0, 0};
    for (const Record* record : results_of(records)) {
      ++solved.n;
      solved.median += verdict_of(*record) == Verdict::solved ? 1 : 0;
    }
    if (solved.n > 0) solved.median /= solved.n;
    add(solved, line.label, "solved");
    if (FigureRow norms = row_with(line, rate, records, typical_norm); norms.n > 0)
      add(norms, line.label, "gradient_norm");
    if (FigureRow norms = row_with(line, rate, records, largest_norm); norms.n > 0)
      add(norms, line.label, "largest_gradient_norm");
  }
  if (!std::isnan(chosen)) add_overlay(drawing, {of_choice, 0, colour});
}

/// Chance level of an accuracy where all records have the same; null: none is drawn.
nlohmann::ordered_json chance_of(const RecordList& records, const Metric& metric) {
  if (metric.is_loss) return nullptr;
  if (metric.name == "test_scaled_accuracy" || metric.name == "context_gap") return 0;
  if (!metric.name.ends_with("_accuracy") || metric.name.find("class") != std::string::npos) return nullptr;
  std::set<double> levels;
  for (const Record* record : records) {
    const double chance = metric_in(*record, "chance_accuracy");
    levels.insert(std::isnan(chance) ? -1 : chance);
  }
  if (levels.size() != 1 || *levels.begin() < 0) return nullptr;
  return *levels.begin();
}

std::vector<FigureRow> rows_of(const Drawing& drawing, const std::vector<std::string>& metrics) {
  std::vector<FigureRow> rows;
  for (const FigureRow& row : drawing.rows)
    if (std::ranges::find(metrics, row.metric) != metrics.end()) rows.push_back(row);
  return rows;
}

Drawing draw_window(const FigureInput& input) {
  check_rates(input);
  const Metric metric = window_metric(input);
  std::set<std::string> labels;
  for (const Record* record : input.records) labels.insert(record->label);
  const bool small =
      input.options.facet == "label" || (input.options.facet.empty() && labels.size() > kWindowLines);
  const std::string facet = small ? "label" : input.options.facet;
  const PanelLines panels = panels_of(input, facet);
  if (panels.size() > kWindowPanels || (!small && (panels.size() > 12 || labels.size() > kWindowLines)))
    throw std::invalid_argument(
        fmt::format("window: {} panels of {} memories are too many to tell apart; choose some (--where "
                    "label=...), or leave out --facet: then each memory has a panel",
                    panels.size(), labels.size()));
  Drawing drawing = begin_drawing(kWindowTemplate, input.options, kLearningRate);
  drawing.needs = {kLearningRate};
  drawing.metric = metric.name;
  std::vector<RecordLine> all;
  for (const auto& [panel, lines] : panels) all.insert(all.end(), lines.begin(), lines.end());
  const int expected = expected_seeds(all, input.options.expected_seeds);
  note_missing(all, expected, kLearningRate, input.notes);
  drawing.figure["xlabel"] = "Learning rate";
  drawing.figure["facet"] = small ? "" : facet;  // else the label says it
  drawing.figure["panels"] = nlohmann::ordered_json::array();
  std::set<std::string> named;
  std::set<double> tried;
  double least = kInfinity, most = 0;
  SeedRange seeds;
  for (const auto& [panel, lines] : panels) {
    const std::string title = small           ? input.styles.at(panel).name
                              : facet.empty() ? ""
                                              : fmt::format("{} = {}", symbol_of(facet), panel);
    drawing.figure["panels"].push_back({panel, title});
    for (const RecordLine& line : lines) {
      add_rows(drawing, line, panel, metric, input.options.best_by, input.styles.at(line.label).colour);
      if (named.insert(line.label).second)
        drawing.lines.push_back(
            {line.label, 0, "", count_seeds(line, expected), input.styles.at(line.label).dash});
      for (const auto& [rate, records] : line.points) {
        least = std::min(least, rate), most = std::max(most, rate);
        tried.insert(rate);
        seeds.add(static_cast<int>(results_of(records).size()));
      }
    }
  }
  drawing.figure["small"] = small;
  drawing.lines_may_coincide = !small;
  drawing.figure["xlim"] = {least / 1.3, most * 1.3};
  drawing.figure["xticks"] = std::vector<double>(tried.begin(), tried.end());
  drawing.figure["chance"] = chance_of(input.records, metric);
  const bool log = metric.is_loss;
  std::pair<double, double> range =
      log ? value_range(rows_of(drawing, {metric.name}), true) : std::pair{-0.02, 1.02};
  if (!log)  // scaled accuracies and gaps fall below 0
    for (const FigureRow& row : rows_of(drawing, {metric.name}))
      if (std::isfinite(row.median)) range.first = std::min(range.first, row.median - 0.02);
  auto& rows = drawing.figure["rows"] = nlohmann::ordered_json::array();
  rows.push_back({metric.name, metric.axis, log ? "log" : "linear", {range.first, range.second}});
  rows.push_back({"solved", "Share solved", "linear", {-0.02, 1.02}});
  if (const auto norms = rows_of(drawing, {"gradient_norm", "largest_gradient_norm"}); !norms.empty()) {
    const auto [low, high] = value_range(norms, true);
    rows.push_back({"gradient_norm", "Gradient norm", "log", {low, high}});
    drawing.footnotes.emplace_back("Gradient norm: before clipping, the median over training.");
  } else {
    drawing.footnotes.emplace_back(
        "Norms of gradients are missing: the runs are older than this metric, or an export without NAME.curves.csv.");
  }
  drawing.overlay_names.emplace_back("chosen", "Best rate on validation");
  drawing.footnotes.insert(
      drawing.footnotes.begin(),
      {seeds.most <= 1 ? std::string("One seed.")
                       : fmt::format("Points: {} seeds; line: their median.", seeds.text()),
       fmt::format("Solved: runs that met their stop rule{}.",
                   config_text(*input.records.front(), "model.name") == "language"
                       ? fmt::format(" (without one: accuracy {})", kSolvedAccuracy)
                       : "")});
  if (const std::string text = unequal_seeds_text(input.records, {kLearningRate}); !text.empty())
    drawing.footnotes.push_back(text);
  std::vector<EdgeChoice> edges =
      edge_choices(input.records, {kLearningRate}, kLearningRate, input.options.best_by);
  for (EdgeChoice& edge : edges)
    if (const auto style = input.styles.find(edge.label); style != input.styles.end())
      edge.label = style->second.name;
  if (const std::string text = edges_text(edges); !text.empty()) {
    drawing.footnotes.push_back(text);
    input.notes << "warning: " << text << '\n';
  }
  return drawing;
}

}  // namespace

Figure window() {
  return {
      .kind =
          {.name = "window",
           .summary =
               "Metric, share solved and gradient norm against the learning rate, the best rate marked",
           .x = "Learning rate.",
           .y =
               "Above: test_accuracy of language models, else test_loss, or any --metric; then the share of runs that are solved; below: the "
               "norm of the gradient before clipping, the median over training, dotted the largest. Of more than eight memories each has a "
               "panel, shaded by the share that is solved.",
           .statistic =
               "Point: one seed; line: the median over seeds. Ring: the rate with the lowest median validation loss (--best-by "
               "accuracy: the highest accuracy); below it stands for whom that is the largest or smallest tried.",
           .threshold =
               "Runs that met train.stop_loss or train.stop_accuracy ('crosstalk describe verdict').",
           .columns = columns_over("train.learning_rate", {"metric"})},
      .draw = draw_window,
      .has_own_panels = true};
}

}  // namespace crosstalk::figures
