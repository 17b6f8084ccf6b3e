// Published results beside ours.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/published.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>
#include <stdexcept>

#include "results/csv.h"
#include "results/numbers/select.h"
#include "results/numbers/statistics.h"
#include "results/printable.h"
#include "results/replay/literature.h"
#include "results/replay/replay.h"
#include "results/store/files.h"
#include "results/store/store.h"

namespace crosstalk {

bool follows_load(const std::string& key) {
  static const std::set<std::string> keys = {"task.associations", "task.keys",        "task.values",
                                             "task.length",       "task.eval_length", "model.embedding"};
  return keys.count(key) != 0;
}

PublishedHead published_head(std::string_view text) {
  static constexpr std::string_view named = "Studies: ", counted = "Beside every count: ";
  PublishedHead head;
  while (text.starts_with('#')) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(1, end - 1);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())) != 0)
      line.remove_prefix(1);
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.remove_suffix(1);
    if (line.starts_with(counted)) {
      head.beside = printable_line(std::string(line.substr(counted.size())));
      if (head.beside.ends_with('.')) head.beside.pop_back();
      continue;
    }
    if (!line.starts_with(named)) {
      if (!line.empty()) head.comments.push_back(printable_line(std::string(line)));
      continue;
    }
    std::istringstream studies{std::string(line.substr(named.size()))};
    for (std::string study; std::getline(studies, study, ',');) {
      std::erase(study, ' ');
      if (study.ends_with(".")) study.pop_back();
      if (!study.empty()) head.studies.push_back(study);
    }
  }
  return head;
}

const std::vector<PublishedColumn>& published_columns() {
  static const std::vector<PublishedColumn> columns = {
      {"label",
       "name of the memory; runs of this label are meant unless memory.* columns say which; a label that the store lacks is drawn beside its runs",
       true},
      {"eval_loss", "final evaluation loss, half the squared error; nan where the run diverged", true},
      {"task.name", "recall or reassign; any task where there is an accuracy", true},
      {"task.associations", "number of associations S", true},
      {"eval_accuracy",
       "in place of eval_loss and task.associations: accuracy between 0 and 1, for 'plot accuracy'", false},
      {"state_bytes", "size of the state in bytes, for 'plot accuracy --x state_bytes'", false},
      {"d_dot", "dimension of the feature map's output; empty where there is none", false},
      {"best_eval_loss", "smallest evaluation loss of the run", false},
      {"steps", "training steps until the run stopped", false},
      {"model.d_key, train.batch, ...",
       "any other key of a configuration: a run of ours must agree with what is known; empty cells are not known",
       false},
      {"agreement",
       "when ours agrees with it, for 'compare': \"median within 0.02 or in range\" (of accuracies, where nothing is said), \"best within 0.02\", "
       "\"in range\" of our seeds, \"each at least 0.99\", \"loss\" (10 % or 0.01; solved where it is solved)",
       false},
      {"scaled_accuracy, exact",
       "read at task.length tokens after training at fewer: our profiles by length (eval.length_factors); "
       "without task.length a scaled accuracy is that of the test split",
       false},
      {"test_class_accuracy",
       "mean over classes (MAD's score): held against ours of that name and no other number", false},
      {"always_right",
       "share of the classes that the published score counts as right whatever a model answers, as ours then are, too "
       "(MAD's mark in compression: 0.0625)",
       false},
      {"setting, S_unique_keys, final_eval_loss",
       "the names in the literature's file: 1 (recall) or 2 (reassign), task.associations, eval_loss", false},
  };
  return columns;
}

namespace {

/// Refuses a file without a task, or without a number that is compared.
void check_needed(const CsvRow& row) {
  const std::vector<std::string>& columns = row.columns();
  const auto has = [&](const char* name) { return std::ranges::find(columns, name) != columns.end(); };
  const std::string there = fmt::format("the columns are {}", fmt::join(columns, ", "));
  if (!has("setting") && !has("task.name"))
    row.fail("published points need a column task.name, such as mqar; " + there);
  for (const std::string& name : columns)
    if (name == "eval_loss" || name == "final_eval_loss" || name == "exact" || name.ends_with("accuracy"))
      return;
  std::string meant;
  for (const std::string& name : columns)
    if (meant.empty())
      meant = nearest_of(name, {"eval_accuracy", "accuracy", "scaled_accuracy", "eval_loss"});
  row.fail(fmt::format(
      "published points need a column eval_accuracy, scaled_accuracy, test_class_accuracy or exact, or eval_loss with task.associations; {}{}",
      there,
      meant.empty() ? "" : fmt::format("; did you mean {}?", meant == "accuracy" ? "eval_accuracy" : meant)));
}

}  // namespace

std::vector<PublishedPoint> parse_published(std::string_view text, const std::string& path) {
  static const std::string what = "published points";
  std::vector<PublishedPoint> points;
  const auto head = std::make_shared<const PublishedHead>(published_head(text));
  read_csv(text, path, [&](const CsvRow& row) {
    const auto has_column = [&](const char* name) {
      return std::ranges::find(row.columns(), name) != row.columns().end();
    };
    PublishedPoint point;
    point.head = head;
    point.label = row.text("label", what);
    if (row.has("agreement")) point.agreement = row.text("agreement", what);
    for (std::size_t i = 0; i < row.columns().size(); ++i)
      if (row.columns()[i].find('.') != std::string::npos && !row.cell(i).empty())
        point.known[row.columns()[i]] = row.cell(i);
    check_needed(row);
    if (has_column("setting") || !has_column("task.name")) {
      const std::int64_t setting = row.integer("setting", what);
      if (setting != 1 && setting != 2)
        row.fail(fmt::format("column 'setting': {} is neither 1 (recall) nor 2 (reassign)", setting));
      point.setting = setting == 1 ? 1 : 2;
      point.known.emplace("task.name", point.setting == 1 ? "recall" : "reassign");
    }
    for (std::size_t i = 0; i < row.columns().size(); ++i)
      if (const auto number = number_in(row.cell(i));
          number && row.columns()[i].find('.') == std::string::npos)
        point.metrics[row.columns()[i]] = *number;
    for (const auto& [name, value] : point.metrics)
      if (name.ends_with("accuracy") && value > 1)
        row.fail(fmt::format("column '{}': {} is more than 1; accuracies are shares, 0.975 for 97.5 %", name,
                             value));
    if (const auto share = point.metrics.find("always_right");
        share != point.metrics.end() && !(share->second >= 0 && share->second < 1))
      row.fail(fmt::format("column 'always_right': {} is no share of classes, from 0 to less than 1",
                           share->second));
    const bool has_load = has_column("S_unique_keys") || has_column("task.associations");
    const auto given = [&](const char* column) { return point.metrics.count(column) != 0; };
    const bool other = std::ranges::any_of(point.metrics, [](const auto& metric) {
      return metric.first.ends_with("accuracy") || metric.first == "exact";
    });
    point.has_loss = !other || (has_load && (given("eval_loss") || given("final_eval_loss")));
    try {
      if (!point.agreement.empty()) Agreement::parse(point.agreement).check(point.has_loss);
    } catch (const std::invalid_argument& error) {
      row.fail(error.what());
    }
    if (!point.has_loss) {
      points.push_back(point);
      return;
    }
    if (has_column("S_unique_keys") || !has_column("task.associations")) {
      point.associations = row.integer("S_unique_keys", what);
      point.known.emplace("task.associations", fmt::format("{}", point.associations));
    } else if (row.has("task.associations")) {
      point.associations = row.integer("task.associations", what);
    }
    const char* const loss = has_column("eval_loss") ? "eval_loss" : "final_eval_loss";
    point.loss = row.number(loss, what);
    check_loss(row, loss, point.loss);
    if (row.has("d_dot")) point.d_dot = row.integer("d_dot", what);
    if (row.has("steps")) point.steps = row.integer("steps", what);
    points.push_back(point);
  });
  if (points.empty()) throw std::invalid_argument(fmt::format("{}: holds no rows", path));
  return points;
}

std::vector<PublishedPoint> read_published(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    throw std::invalid_argument(fmt::format("published points: \"{}\" is no regular file", path.string()));
  std::string text;
  try {
    text = read_file(FileSystem::real(), path);
  } catch (const StoreError&) {
    throw std::invalid_argument(fmt::format("published points: \"{}\" cannot be read", path.string()));
  }
  return parse_published(text, path.string());
}

std::vector<PublishedPoint> default_published() {
  return parse_published(kLiterature, "literature/schlag2021_final_losses.csv");
}

namespace {

/// Calls differ(key, ours, published) for each difference; until it returns false.
template <class Differ>
void for_each_difference(const Record& record, const PublishedPoint& point, bool any_load,
                         const Differ& differ) {
  const bool by_memory =
      point.known.count("memory.name") != 0 && config_text(record, "memory.name").has_value();
  if (!by_memory && record.label != point.label && !differ("label", record.label, point.label)) return;
  for (const auto& [key, value] : point.known) {
    if (any_load && follows_load(key)) continue;
    const auto ours = config_text(record, key);
    if (ours && !same_text(*ours, value) && !differ(key, *ours, value)) return;
  }
  if (point.d_dot > 0 && record.d_dot > 0 && point.d_dot != record.d_dot)
    differ("d_dot", fmt::format("{}", record.d_dot), fmt::format("{}", point.d_dot));
}

bool is_one_of(const std::vector<std::string>& keys, const std::string& key) {
  return std::ranges::find(keys, key) != keys.end();
}

}  // namespace

std::vector<std::string> differences(const Record& record, const PublishedPoint& point, bool any_load) {
  std::vector<std::string> found;
  for_each_difference(record, point, any_load,
                      [&](const std::string& key, const auto& ours, const auto& published) {
                        found.push_back(fmt::format("{} ({}, published {})", key, ours, published));
                        return true;
                      });
  return found;
}

std::size_t count_differences(const Record& record, const PublishedPoint& point, bool any_load,
                              const std::vector<std::string>& allowed, std::size_t most) {
  std::size_t count = 0;
  for_each_difference(record, point, any_load, [&](const std::string& key, const auto&, const auto&) {
    count += is_one_of(allowed, key) ? 0 : 1;
    return count < most;
  });
  return count;
}

std::vector<std::string> without_partner(const std::vector<PublishedPoint>& points,
                                         const std::map<std::string, Record>& records, bool any_load,
                                         std::size_t of, const std::vector<std::string>& allowed) {
  std::map<std::string, int> reasons;
  for (const PublishedPoint& point : points) {
    std::vector<std::string> closest;
    bool found = false, has_label = false;
    for (const auto& [id, record] : records) {
      if (record.status == RunStatus::failed) continue;
      const bool is_first = closest.empty();
      const std::size_t count = count_differences(record, point, any_load, allowed,
                                                  is_first ? point.known.size() + 2 : closest.size());
      has_label = has_label || record.label == point.label;
      if (!is_first && count >= closest.size()) continue;
      std::vector<std::string> here = differences(record, point, any_load);
      std::erase_if(here, [&](const std::string& one) {
        return std::ranges::any_of(allowed,
                                   [&](const std::string& key) { return one.starts_with(key + " ("); });
      });
      found = found || here.empty();
      if (found) break;
      closest = std::move(here);
    }
    if (found) continue;
    const std::size_t more = closest.size() > 3 ? closest.size() - 3 : 0;
    if (more > 0) closest = {closest.begin(), closest.begin() + 3};
    ++reasons[fmt::format("{}the nearest run differs in {}",
                          has_label ? "" : fmt::format("no run has the label {}; ", point.label),
                          closest.empty()
                              ? "everything"
                              : fmt::format("{}{}", fmt::join(closest, ", "),
                                            more > 0 ? fmt::format(" and {} more keys", more) : ""))];
  }
  std::vector<std::pair<int, std::string>> sorted;
  int all = 0;
  for (const auto& [reason, count] : reasons) {
    sorted.emplace_back(-count, reason);
    all += count;
  }
  std::ranges::sort(sorted);
  std::vector<std::string> lines;
  if (all > 0)
    lines.push_back(
        fmt::format("{} of {} published points have no run here", all, std::max(of, points.size())));
  constexpr std::size_t most = 6;
  for (std::size_t i = 0; i < std::min(sorted.size(), most); ++i)
    lines.push_back(fmt::format("  {}: {}", -sorted[i].first, sorted[i].second));
  if (sorted.size() > most) lines.push_back(fmt::format("  ... {} more reasons", sorted.size() - most));
  return lines;
}

}  // namespace crosstalk
