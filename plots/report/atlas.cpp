// The atlas' numbers: settings of tasks, the best rate of each cell, its interval, verdict, window, cost and place.
// SPDX-License-Identifier: Apache-2.0
#include "plots/report/atlas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>

#include "plots/report/report_parts.h"
#include "plots/report/suggest.h"
#include "results/numbers/verdict.h"

namespace crosstalk {
namespace {

constexpr const char *kLayer = "model.layer", *kBare = " (bare)";

/// The retrieval model has no layers: its memories are bare.
bool is_bare(const Record& record) { return config_text(record, kLayer).value_or("bare") == "bare"; }

/// Gives the bare runs of labels that also stand in their authors' layer a label of their own.
std::map<std::string, std::string> separate_layers(LabelledRecords& rows) {
  std::set<std::string> layered;
  std::map<std::string, std::string> bases;
  for (const auto& [key, record] : rows.rows)
    if (!is_bare(record)) layered.insert(record.label);
  for (const Record& record : rows.missing)
    if (!is_bare(record)) layered.insert(record.label);
  const auto separate = [&](Record& record) {
    if (layered.count(record.label) == 0 || !is_bare(record)) return;
    const std::string base = record.label;
    bases.emplace(record.label += kBare, base);
  };
  for (auto& [key, record] : rows.rows) separate(record);
  for (Record& record : rows.missing) separate(record);
  std::vector<AskedLabel> labels;
  for (const AskedLabel& label : rows.labels) {
    labels.push_back(label);
    if (bases.count(label.label + kBare) != 0)
      labels.push_back(
          {label.label + kBare, (label.title.empty() ? label_name(label.label) : label.title) + kBare, {}});
  }
  rows.labels = std::move(labels);
  return bases;
}

/// Settings of tasks: tasks as the study asks for them, settings of one by size.
std::vector<AtlasColumn> columns_of(const RecordList& planned, const LabelledRecords& rows) {
  std::map<std::string, std::size_t> asked;
  for (const std::string& id : rows.order) asked.emplace(id, asked.size());
  std::map<std::string, RecordList> tasks;
  for (const Record* record : planned)
    tasks[config_text(*record, "task.name").value_or("")].push_back(record);
  std::vector<std::pair<std::size_t, AtlasColumn>> found;
  for (const auto& [task, records] : tasks) {
    std::vector<std::string> keys;
    for (const std::string& key : differing_keys(records))
      if (key.starts_with("task.") && key != "task.name") keys.push_back(key);
    std::set<std::vector<std::pair<double, std::string>>> settings;  // numbers by size
    std::size_t first = asked.size();
    for (const Record* record : records) {
      std::vector<std::pair<double, std::string>> values;
      for (const std::string& key : keys)
        values.emplace_back(config_number(*record, key).value_or(0), config_text(*record, key).value_or(""));
      const auto place = asked.find(record->id);
      if (place != asked.end()) first = std::min(first, place->second);
      settings.insert(values);
    }
    for (const auto& values : settings) {
      AtlasColumn column{task, task, {{"task.name", task}}, {}};
      for (std::size_t i = 0; i < keys.size(); ++i) {
        const std::string& value = values[i].second;
        if (value.empty()) continue;
        column.where[keys[i]] = value;
        column.title += fmt::format(", {} = {}", keys[i].substr(5), value);
      }
      found.emplace_back(first, column);
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<AtlasColumn> columns;
  for (auto& [place, column] : found) columns.push_back(std::move(column));
  return columns;
}

/// A setting's own: bits a token of text, else accuracy of token tasks and loss of others.
Metric metric_for(const FigureInput& input) {
  const char* bits = "test_bits_per_token";
  const bool is_text = std::any_of(input.records.begin(), input.records.end(),
                                   [&](const Record* record) { return record->metrics.contains(bits); });
  return is_text && input.options.metric.empty() ? Metric{bits, "Test loss (bits a token)", true}
                                                 : window_metric(input);
}

double metric_in(const Record& record, const char* name) {
  const auto found = record.metrics.find(name);
  return found == record.metrics.end() ? kNone : found->second;
}

/// A step's time on the device, the share of one run of its pack: the least of these runs, for a run that joins a pack later counts
/// the time before it too.
double milliseconds_of(const RecordList& runs) {
  double least = kNone;
  for (const Record* run : runs) {
    if (!run->provenance.is_object() || run->steps <= 0) continue;
    const auto wall = run->provenance.find("wall_s");
    if (wall == run->provenance.end() || !wall->is_number()) continue;
    const double pack = run->provenance.value("pack", 1.0);
    least =
        std::fmin(least, 1000 * wall->get<double>() / static_cast<double>(run->steps) / std::max(pack, 1.0));
  }
  return least;
}

/// "train.max_steps 500 (3000)": the training of `own` where none of the others has it so.
std::string otherwise_of(const RecordList& own, const RecordList& others) {
  std::vector<std::string> texts;
  for (const auto& [key, varies] : config_keys(own)) {
    if (!(key.starts_with("train.") || key.starts_with("task.")) || key == kLearningRate) continue;
    const std::vector<std::string> here = values_of(own, key), there = values_of(others, key);
    if (std::none_of(here.begin(), here.end(), [&](const std::string& value) {
          return std::find(there.begin(), there.end(), value) != there.end();
        }))
      texts.push_back(fmt::format("{} {} ({})", key, fmt::join(here, ", "), fmt::join(there, ", ")));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// The cell of one row in a column. `windows`: of the whole column.
AtlasCell cell_of(const RecordLine& line, const Metric& metric, const FigureOptions& options,
                  const std::vector<RateWindow>& windows) {
  AtlasCell cell;
  RecordList all;
  for (const auto& [rate, records] : line.points) all.insert(all.end(), records.begin(), records.end());
  RecordList results = results_of(all);
  if (results.empty()) {
    cell.state = CellState::failed;
    return cell;
  }
  cell.milliseconds = milliseconds_of(results);
  cell.runs = results;
  std::set<std::optional<double>> rates;
  for (const Record* run : results) rates.insert(learning_rate_of(*run));
  if (rates.size() > 1) {
    const std::vector<std::string> best = {kLearningRate};
    cell.runs = choose_best(results, best, options.best_by);
    for (const EdgeChoice& edge : edge_choices(results, best, kLearningRate, options.best_by))
      cell.edge = edge.largest > 0 ? "largest" : edge.smallest > 0 ? "smallest" : "";
  }
  const Record& first = *cell.runs.front();
  cell.rate = learning_rate_of(first).value_or(kNone);
  cell.row = row_of(line, cell.rate, cell.runs, metric);
  cell.parameters = metric_in(first, "parameters");
  if (const double floats = state_floats(first); floats > 0) cell.state_size = floats;
  VerdictCounts counts;
  for (const Record* run : cell.runs) ++counts[verdict_of(*run)];
  cell.verdict = counts.size() == 1 ? words_of(counts.begin()->first)
                                    : fmt::format("{}", fmt::join(counted(counts), ", "));
  for (const RateWindow& window : windows)
    if (window.line.label == line.label) cell.window = window;
  const ChanceCount chance = chance_of(cell.runs, metric.name, options.answers);
  cell.state = mostly_diverged(cell.runs)        ? CellState::diverged
               : cell.row.n == 0                 ? CellState::missing
               : 2 * chance.within > chance.runs ? CellState::at_chance
                                                 : CellState::value;
  return cell;
}

/// The best of the shortcuts that the runs' task measured; NaN without one, and where one solves the task.
double shortcut_of(const RecordList& results) {
  double best = kNone;
  for (const Record* record : results)
    for (const auto& [name, value] : record->metrics)
      if (name.starts_with("baseline_") && name.ends_with("_accuracy")) best = std::fmax(best, value);
  return best < kSolvedAccuracy ? best : kNone;
}

}  // namespace

std::string to_text(CellState state) {
  switch (state) {
    case CellState::value:
      return "value";
    case CellState::at_chance:
      return "at chance";
    case CellState::by_shortcut:
      return "by shortcut";
    case CellState::diverged:
      return "diverged";
    case CellState::failed:
      return "failed";
    case CellState::missing:
      return "missing";
    case CellState::not_asked:
      return "not asked";
  }
  return "";
}

Atlas make_atlas(LabelledRecords& rows, const FigureOptions& options, const ReportInput& input,
                 std::ostream& notes) {
  std::map<std::string, std::string> bases;
  if (std::find(options.by.begin(), options.by.end(), kLayer) == options.by.end())
    bases = separate_layers(rows);
  Atlas atlas{prepare("atlas", rows, options), {}, {}, {}};
  const Prepared& prepared = atlas.prepared;
  RecordList planned = prepared.records;
  planned.insert(planned.end(), prepared.missing.begin(), prepared.missing.end());
  std::map<std::string, const Record*> labels;
  for (const Record* record : planned) labels.emplace(record->label, record);
  const Names names(rows);
  for (const auto& [label, record] : labels) {
    const auto base = bases.find(label);
    AtlasRow row;
    row.label = label, row.base = base == bases.end() ? label : base->second;
    row.name = names.of(label), row.memory = config_text(*record, "memory.name").value_or("");
    row.bare = base != bases.end();
    row.mine = input.mine.count(row.base) != 0;
    if (const auto family = input.families.find(row.memory); family != input.families.end())
      row.family = family->second;
    atlas.rows.push_back(row);
  }
  const std::vector<std::string> order = names.labels(planned);
  std::stable_sort(atlas.rows.begin(), atlas.rows.end(), [&](const AtlasRow& a, const AtlasRow& b) {
    if (a.mine != b.mine) return a.mine;
    return std::find(order.begin(), order.end(), a.label) < std::find(order.begin(), order.end(), b.label);
  });
  std::map<std::string, std::size_t> place;
  for (std::size_t i = 0; i < atlas.rows.size(); ++i) place[atlas.rows[i].label] = i;
  for (AtlasColumn& column : columns_of(planned, rows)) {
    RecordList records, missing;
    for (const Record* record : prepared.records)
      if (matches_all(*record, column.where)) records.push_back(record);
    for (const Record* record : prepared.missing)
      if (matches_all(*record, column.where)) missing.push_back(record);
    std::vector<AtlasCell> cells(atlas.rows.size());
    for (const Record* record : missing) cells[place.at(record->label)].state = CellState::missing;
    if (!results_of(records).empty()) {
      FigureOptions own = options;
      std::ostringstream unsaid;
      try {
        column.metric = metric_for({records, prepared.styles, own, unsaid});
      } catch (const std::invalid_argument& lacking) {
        notes << fmt::format("left out: {}: {}\n", column.title, lacking.what());
        continue;
      }
      for (const Record* record : results_of(records))
        for (const char* name : {"chance_accuracy", "constant_loss", "chance_loss"})
          if (std::isnan(column.chance) && column.metric.is_loss == std::string(name).ends_with("loss"))
            column.chance = metric_in(*record, name);
      if (column.metric.name == "test_bits_per_token") column.chance = kNone;  // of which nats are
      if (column.metric.name == "test_accuracy") column.shortcut = shortcut_of(results_of(records));
      std::vector<RateWindow> windows;
      own.metric = column.metric.name;
      const FigureInput shown{records, prepared.styles, own, unsaid};
      if (!std::isnan(column.chance) && values_of(records, kLearningRate).size() > 1)
        windows = windows_of(shown, draw_windows(shown)).rows;
      for (const RecordLine& line : make_lines(
               records, [](const Record& record) { return learning_rate_of(record).value_or(0); },
               kLearningRate, Apart::label)) {
        AtlasCell cell = cell_of(line, column.metric, options, windows);
        if (cell.state == CellState::value &&
            cell.row.median <= column.shortcut + kChanceMargin * (1 - column.shortcut))
          cell.state = CellState::by_shortcut;
        const std::size_t at = place.at(line.label);
        if (atlas.rows[at].mine) {
          RecordList others;
          for (const Record* record : records)
            if (!atlas.rows[place.at(record->label)].mine) others.push_back(record);
          if (!others.empty() && !cell.runs.empty()) cell.otherwise = otherwise_of(cell.runs, others);
        }
        cells[at] = std::move(cell);
      }
    }
    atlas.columns.push_back(column);
    if (atlas.cells.empty()) atlas.cells.resize(atlas.rows.size());
    for (std::size_t i = 0; i < cells.size(); ++i) atlas.cells[i].push_back(std::move(cells[i]));
  }
  return atlas;
}

}  // namespace crosstalk
