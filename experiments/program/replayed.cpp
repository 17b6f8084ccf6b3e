// The studies that ship with the program.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/program/replayed.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "experiments/training/state/record_of.h"
#include "results/numbers/select.h"
#include "results/printable.h"

namespace crosstalk::program {

/// Path and text of each, ended by an empty path (experiments/program/CMakeLists.txt).
extern const std::pair<const char*, const char*> kShippedStudies[];

namespace {

/// ReplayedStudy::default_of, by the options of this program. Defaults that a memory derives ("") are unknown.
std::optional<std::string> default_of(const std::string& task, const std::string& memory,
                                      const std::string& key) {
  const OptionSpec* spec = find_option(default_schema(), task, memory, key);
  if (!spec) return std::nullopt;
  const auto* text = std::get_if<std::string>(&spec->default_value);
  if (!text) return to_text(spec->default_value);
  return text->empty() ? std::nullopt : std::optional(*text);
}

/// Of numbers of points: those that published_columns() names, and metrics.
bool is_number_of_a_point(const std::string& column) {
  static const std::set<std::string> names = {"d_dot",         "steps",           "setting",
                                              "S_unique_keys", "final_eval_loss", "state_bytes"};
  return names.count(column) != 0 || column.find("loss") != column.npos ||
         column.find("accuracy") != column.npos;
}

/// Refuses a study that is none of these: a point would be held against nothing.
void check_shipped(const std::set<std::string>& wanted) {
  std::vector<std::string> names;
  for (const auto* shipped = kShippedStudies; *shipped->first != '\0'; ++shipped)
    names.emplace_back(shipped->first);
  for (const std::string& study : wanted) {
    if (std::ranges::find(names, study) != names.end()) continue;
    const std::string near = nearest_of(study, names);
    throw std::invalid_argument(fmt::format(
        "the head says # Studies: {}, which does not come with this program{}", printable_line(study),
        near.empty() ? "; leave it out, or name experiments/NAME.toml of those that do"
                     : fmt::format("; did you mean {}?", near)));
  }
}

}  // namespace

std::string unknown_to_all(const std::string& key, const std::vector<const Record*>& records) {
  const bool some = std::ranges::any_of(
      records, [&](const Record* record) { return field_text(*record, key).has_value(); });
  return some || default_schema().knows(key) ? "" : default_schema().unknown_key(key);
}

void check_columns(const std::vector<PublishedPoint>& points, const std::vector<const Record*>& records) {
  std::set<std::string> keys, numbers;
  for (const PublishedPoint& point : points) {
    for (const auto& [key, value] : point.known) keys.insert(key);
    for (const auto& [name, value] : point.metrics)
      if (!is_number_of_a_point(name)) numbers.insert(name);
  }
  for (const std::string& key : keys)
    if (const std::string wrong = unknown_to_all(key, records); !wrong.empty())
      throw std::invalid_argument(fmt::format("column {}: {}", printable_line(key), wrong));
  for (const std::string& name : numbers)
    for (const std::string& key : default_schema().keys())
      if (key.ends_with("." + name))
        throw std::invalid_argument(fmt::format("column {}: a key stands with its section; did you mean {}?",
                                                printable_line(name), key));
}

std::vector<ReplayedStudy> replayed_studies(const std::vector<PublishedPoint>& points) {
  std::set<std::string> wanted;
  for (const PublishedPoint& point : points)
    if (point.head) wanted.insert(point.head->studies.begin(), point.head->studies.end());
  std::vector<ReplayedStudy> studies;
  check_shipped(wanted);
  for (const auto* shipped = kShippedStudies; *shipped->first != '\0'; ++shipped) {
    if (wanted.count(shipped->first) == 0) continue;
    StudyOptions one_seed;
    one_seed.set = {"seeds=1"};
    const Study study = parse_study(shipped->second, shipped->first, one_seed);
    ReplayedStudy replayed{shipped->first, study.name, {}, default_of};
    for (const Run& run : study.runs)
      for (const std::string& label : run.labels) {
        replayed.runs.push_back(record_of(study.name, run, RunStatus::done));
        replayed.runs.back().label = label;
      }
    studies.push_back(std::move(replayed));
  }
  return studies;
}

}  // namespace crosstalk::program
