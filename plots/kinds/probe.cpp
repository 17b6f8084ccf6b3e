// The figure of a probe: squared error and recall of untrained memories against pairs stored, theory behind.
// SPDX-License-Identifier: Apache-2.0
#include "plots/kinds/figure_file.h"
#include "results/numbers/probe_theory.h"

namespace crosstalk::figures {
namespace {

constexpr std::size_t kMostLines = 12;
constexpr double kExact = 1e-4;  // errors that nobody tells apart

struct Shown {
  const char *name, *axis;
  Metric metric;
};
const std::vector<Shown>& shown() {
  static const std::vector<Shown> all = {
      {"squared_error", "Squared error $|o - v|^2$", {"squared_error", "", true}},
      {"recall", "Recall", {"test_accuracy", "", false}}};
  return all;
}

void check(const FigureInput& input, const std::vector<RecordLine>& lines) {
  if (lines.empty())
    throw std::invalid_argument(
        fmt::format("probe needs records of untrained memories (model.name = \"probe\", task recall, "
                    "train.max_steps = 0), as experiments/probe.toml makes them; {}",
                    what_they_are(input.records)));
  std::set<std::string> labels;
  for (const RecordLine& line : lines) labels.insert(line.label);
  if (labels.size() > kMostLines)
    throw std::invalid_argument(fmt::format(
        "probe: {} memories are too many lines to tell apart (at most {}); choose some: --where label={},{} (the numbers of all: "
        "crosstalk table final STORE --metric squared_error, or snr, test_accuracy)",
        labels.size(), kMostLines, *labels.begin(), *std::next(labels.begin())));
  if (!input.options.facet.empty())
    throw std::invalid_argument("probe has a panel for each model.d_key already; leave out --facet");
  if (!input.options.metric.empty())
    throw std::invalid_argument(
        "probe draws squared error and recall; leave out --metric (other figures and tables take it)");
}

/// Squared error and recall where theory knows the memory, at many loads between the first and the last.
void add_theory(Drawing& drawing, const RecordLine& line, const std::string& panel,
                const std::string& colour) {
  const Record& record = *line.points.begin()->second.front();
  const double d_v = config_number(record, "model.probe_values").value_or(line.d_key);
  const double first = line.points.begin()->first, last = line.points.rbegin()->first;
  const auto vocabulary = [&](double n) {  // follows the load unless it was given
    const double values = config_number(record, "task.values").value_or(first);
    return values == first ? n : values;
  };
  const std::string label = "theory: " + line.label;
  std::set<int> places;
  for (int i = 0; i <= 60; ++i)
    places.insert(static_cast<int>(std::lround(first * std::pow(last / first, i / 60.0))));
  std::vector<FigureRow> rows;
  for (const int n : places) {
    const auto reads = probe_reads(record, n);
    if (!reads) return;
    double error = 0, right = 0;
    for (const ProbeRead& read : *reads)
      error += squared_error(read), right += recall(read, d_v, vocabulary(n));
    const auto count = static_cast<double>(reads->size());
    for (const auto& [metric, value] :
         {std::pair{"squared_error", error / count}, std::pair{"recall", right / count}}) {
      if (value <= 0) continue;  // nothing on a log axis
      FigureRow row{label, line.d_dot, static_cast<double>(n), 0, value};
      row.facet = panel, row.metric = metric;
      rows.push_back(row);
    }
  }
  drawing.rows.insert(drawing.rows.end(), rows.begin(), rows.end());
  add_overlay(drawing, {label, 0, colour});
  if (drawing.overlay_names.empty()) drawing.overlay_names.emplace_back("theory", "Theory, random keys");
}

Drawing draw_probe(const FigureInput& input) {
  auto lines = make_lines(
      input.records,
      [](const Record& record) {
        const bool probe =
            config_text(record, "model.name") == "probe" && record.metrics.count("squared_error") != 0;
        return probe ? config_number(record, kLoad) : std::nullopt;
      },
      kLoad, Apart::d_dot_and_d_key);
  check(input, lines);
  sort_lines(lines, input.styles);
  Drawing drawing = begin_drawing(kProbeTemplate, input.options, "associations");
  drawing.needs = {kLoad};
  drawing.metric = "squared_error";
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, kLoad, input.notes);

  std::set<double> sizes;
  std::set<std::string> named;
  for (const RecordLine& line : lines) {
    sizes.insert(line.d_key);
    if (named.insert(line.label).second)
      drawing.lines.push_back(
          {line.label, 0, "", count_seeds(line, expected), input.styles.at(line.label).dash});
  }
  drawing.figure["xlabel"] = "Pairs stored per dimension, $n / d_{\\mathrm{key}}$";
  drawing.figure["facet"] = "model.d_key";
  drawing.figure["panels"] = nlohmann::ordered_json::array();
  drawing.figure["rows"] = nlohmann::ordered_json::array();
  drawing.figure["vertical"] = nlohmann::ordered_json::object();
  for (const double d : sizes)
    drawing.figure["panels"].push_back(
        {fmt::format("{}", d), fmt::format("$d_{{\\mathrm{{key}}}}$ = {}", d)});
  std::vector<FigureRow> errors;
  for (const Shown& one : shown()) {
    for (const RecordLine& line : lines)
      for (const auto& [load, records] : line.points) {
        FigureRow row = row_of(line, load, records, one.metric);
        row.facet = fmt::format("{}", line.d_key), row.metric = one.name;
        drawing.rows.push_back(row);
        if (one.metric.is_loss) errors.push_back(row);
      }
  }
  bool any_theory = false;
  for (const RecordLine& line : lines) {
    if (!input.options.theory || !probe_reads(*line.points.begin()->second.front(), 2)) continue;
    add_theory(drawing, line, fmt::format("{}", line.d_key), input.styles.at(line.label).colour);
    any_theory = true;
  }
  double least = kInfinity, most = 0;
  for (const RecordLine& line : lines) {
    least = std::min(least, line.points.begin()->first / line.d_key);
    most = std::max(most, line.points.rbegin()->first / line.d_key);
  }
  drawing.figure["xlim"] = {0.85 * least, 1.15 * most};
  if (any_theory) {
    for (const double d : sizes) {
      auto& marks = drawing.figure["vertical"][fmt::format("{}", d)];
      marks = nlohmann::ordered_json::array();
      for (const auto& [c, name] : {std::pair{8, "Limit of the sum rule"}, {2, "Limit of the optimum"}})
        if (const double x = all_right_load(d, c) / d; x < most)
          marks.push_back({std::stod(fmt::format("{:.4g}", x)), name});
    }
    drawing.footnotes.emplace_back(
        "Limits: numbers of pairs up to which the sum rule ($8 n \\ln n = d^2$) and the best linear memory "
        "($2 n \\ln n = d^2$, the optimum) retrieve every value, for large d.");
  }
  auto [low, high] = value_range(errors, true);
  if (low < kExact) {
    low = kExact;
    drawing.footnotes.push_back(fmt::format("Smaller errors than {:g} stand on the axis.", kExact));
  }
  drawing.figure["rows"].push_back({shown()[0].name, shown()[0].axis, "log", {low, high}});
  drawing.figure["rows"].push_back({shown()[1].name, shown()[1].axis, "linear", {-0.02, 1.03}});
  count_drawn_seeds(drawing, lines);
  return drawing;
}

}  // namespace

Figure probe() {
  return {
      .kind =
          {.name = "probe",
           .summary = "Squared error and recall of untrained memories (model.name = probe), beside theory",
           .x = "Pairs stored per dimension, n / d_key, a column of panels for each d_key.",
           .y =
               "Squared error of what is retrieved (above) and recall among random codes (below), beside theory.",
           .statistic = kMedian,
           .options = {"--no-theory"},
           .columns = columns_over("associations", {"model.d_key", "metric"})},
      .draw = draw_probe,
      .has_own_panels = true};
}

}  // namespace crosstalk::figures
