// SPDX-License-Identifier: Apache-2.0
#include "plots/tables/mad_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

constexpr int kMadTasks = 6;
constexpr const char* kByClass = "test_class_accuracy";  ///< MAD's score

/// Which column a record belongs to; -1: none.
int mad_task_of(const Record& record) {
  const std::string task = config_text(record, "task.name").value_or("");
  if (task == "compression") return 0;
  if (task == "mad_recall") {
    if (config_number(record, "task.motif").value_or(1) > 1) return 1;
    return config_number(record, "task.noise").value_or(0) > 0 ? 4 : 2;
  }
  return task == "memorise" ? 3 : task == "selective_copy" ? 5 : -1;
}

/// By classes the mark of compression, always right, is one of them in MAD.
double score_of(const Record& record, const Metric& metric) {
  const double value = value_of(record, metric),
               classes = config_number(record, "task.vocabulary").value_or(0);
  const bool marked =
      metric.name == kByClass && mad_task_of(record) == 0 && classes > 1 && !has_diverged(record);
  return marked ? ((classes - 1) * value + 1) / classes : value;
}

double mean_score(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

const std::vector<std::string>& mad_columns() {
  static const std::vector<std::string> names = {"Compress", "Fuzzy", "Recall", "Memorise",
                                                 "Noisy",    "Copy",  "Mean"};
  return names;
}

Metric mad_metric(const FigureInput& input) {
  FigureOptions options = input.options;
  const RecordList runs = results_of(input.records);
  const bool by_class = std::ranges::all_of(runs, [](const Record* record) {
    return mad_task_of(*record) < 0 || has_diverged(*record) || record->metrics.contains(kByClass);
  });
  if (options.metric.empty())
    options.metric = by_class ? kByClass : options.best.empty() ? "eval_accuracy" : "test_accuracy";
  return metric_of({input.records, input.styles, options, input.notes});
}

Drawing draw_mad(const FigureInput& input) {
  const Metric metric = mad_metric(input);
  Drawing drawing = begin_drawing(kLinesTemplate, input.options, "task");
  drawing.metric = metric.name;
  std::map<std::string, int> settings;  // a place on make_lines' axis for each
  std::vector<int> columns;
  const auto place = [&](const Record& record) -> std::optional<double> {
    const int column = mad_task_of(record);
    if (column < 0) return std::nullopt;
    const auto [at, is_new] = settings.try_emplace(task_setting(record), static_cast<int>(columns.size()));
    if (is_new) columns.push_back(column);
    return at->second;
  };
  auto lines = make_lines(input.records, place, "", Apart::label);
  if (lines.empty())
    throw std::invalid_argument(
        "mad: no run is of a task of MAD (compression, mad_recall, memorise, selective_copy); experiments/mad.toml has them");
  sort_lines(lines, input.styles);
  const int expected = expected_seeds(lines, input.options.expected_seeds);
  note_missing(lines, expected, "", input.notes);
  add_legend(drawing, lines, input.styles, expected, false);
  for (const RecordLine& line : lines) {
    std::vector<int> wanted(kMadTasks);                            // settings of each task
    std::map<std::int64_t, std::vector<std::vector<double>>> got;  // by seed and task
    for (const auto& [at, records] : line.points) {
      const auto column = static_cast<std::size_t>(columns[static_cast<std::size_t>(at)]);
      ++wanted[column];
      for (const Record* record : results_of(records))
        if (const double value = score_of(*record, metric); !std::isnan(value))
          got.try_emplace(record->seed, kMadTasks).first->second[column].push_back(value);
    }
    for (std::size_t column = 0; column <= kMadTasks; ++column) {
      std::vector<double> scores;
      SeedValues seeds;
      for (const auto& [seed, of_task] : got) {
        std::vector<double> means;
        for (std::size_t task = 0; task < kMadTasks; ++task)
          if (static_cast<int>(of_task[task].size()) == wanted[task] && wanted[task] > 0)
            if (column == kMadTasks || column == task) means.push_back(mean_score(of_task[task]));
        if (means.size() == (column == kMadTasks ? static_cast<std::size_t>(kMadTasks) : 1u))
          seeds.push_back({std::to_string(seed), mean_score(means)}), scores.push_back(seeds.back().value);
      }
      if (scores.empty()) continue;
      const Summary summary = summarise(scores);
      FigureRow row{line.label, line.d_dot, static_cast<double>(column), summary.n};
      row.median = summary.median, row.lo = summary.lo, row.hi = summary.hi;
      row.seeds = std::move(seeds);
      row.solved = !metric.is_loss && row.median >= kSolvedAccuracy;
      drawing.rows.push_back(row);
    }
  }
  return drawing;
}

}  // namespace crosstalk
