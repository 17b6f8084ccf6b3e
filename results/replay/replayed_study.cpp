// What a run does otherwise than the studies that replay published numbers.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/replayed_study.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "results/csv.h"
#include "results/printable.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostKeys = 12, kMostValues = 3;

/// What a run reads beside its test, and what no loss depends on.
bool is_aside(const std::string& key) {
  return is_seed_key(key) || key == "eval.length_factors" || key == "eval.piece";
}

/// Whether a difference in a key follows from another one, which says it: steps from epochs, warm-up as the same share of the steps.
bool follows(const Record& ours, const Record& theirs, const std::string& key) {
  if (key == "train.max_steps") return config_number(ours, "train.epochs").value_or(0) > 0;
  if (key == "eval.every") {  // once an epoch, whatever it takes
    const auto by_epoch = [&](const Record& run) {
      const double epochs = config_number(run, "train.epochs").value_or(0);
      return epochs > 0 && config_number(run, key).value_or(0) * epochs ==
                               config_number(run, "train.max_steps").value_or(0);
    };
    return by_epoch(ours) && by_epoch(theirs);
  }
  if (key != "train.warmup_steps") return false;
  const auto share = [&](const Record& run) {
    return config_number(run, key).value_or(0) / config_number(run, "train.max_steps").value_or(1);
  };
  return std::abs(share(ours) - share(theirs)) < 1e-3;
}

std::vector<Otherwise> between(const Record& record, const ReplayedStudy& study, const Record& run,
                               bool any_load) {
  std::vector<Otherwise> found;
  for (const auto& [key, value] : run.config) {
    if (is_aside(key) || follows(record, run, key) || (any_load && follows_load(key))) continue;
    auto ours = config_text(record, key);
    const auto theirs = config_text(run, key);
    if (!ours && study.default_of)
      ours = study.default_of(config_text(run, "task.name").value_or(""),
                              config_text(run, "memory.name").value_or(""), key);
    if (ours && theirs && !same_text(*ours, *theirs)) found.push_back({study.path, key, *ours, *theirs});
  }
  return found;
}

/// "5", "5 or 6", "5 to 9".
std::string listed(const std::set<std::string>& values) {
  const std::vector<std::string> sorted = sorted_values({values.begin(), values.end()});
  if (sorted.size() > kMostValues) return fmt::format("{} to {}", sorted.front(), sorted.back());
  return fmt::format("{}", fmt::join(sorted, " or "));
}

/// A value between parentheses or commas: texts with spaces are quoted.
std::string plain(const std::string& value) {
  const std::string text = value.empty() ? "none" : printable_line(value);
  return text.find(' ') == std::string::npos ? text : "\"" + text + "\"";
}

}  // namespace

std::vector<Otherwise> otherwise_than(const Record& record, const PublishedPoint& point,
                                      const std::vector<ReplayedStudy>& studies, bool any_load) {
  if (!point.head || record.config.empty()) return {};
  std::vector<const ReplayedStudy*> candidates;
  for (const ReplayedStudy& study : studies)
    if (std::ranges::count(point.head->studies, study.path) != 0) candidates.push_back(&study);
  if (std::ranges::any_of(candidates,
                          [&](const ReplayedStudy* study) { return study->name == record.study; }))
    std::erase_if(candidates, [&](const ReplayedStudy* study) { return study->name != record.study; });
  const bool by_label = std::ranges::any_of(candidates, [&](const ReplayedStudy* study) {
    return std::ranges::any_of(study->runs, [&](const Record& run) { return run.label == record.label; });
  });
  PublishedPoint known = point;
  known.d_dot = 0;
  std::vector<Otherwise> nearest;
  std::tuple<std::size_t, std::size_t> least{std::string::npos, 0};
  for (const ReplayedStudy* study : candidates)
    for (const Record& run : study->runs) {
      if (by_label && run.label != record.label) continue;
      const std::size_t unlike = differences(run, known, any_load).size();
      if (unlike > std::get<0>(least)) continue;
      std::vector<Otherwise> found = between(record, *study, run, any_load);
      if (const std::tuple rank{unlike, found.size()}; rank < least) least = rank, nearest = std::move(found);
    }
  return nearest;
}

std::vector<std::string> otherwise_text(const std::vector<std::vector<Otherwise>>& points, const char* what) {
  struct Key {
    std::set<std::string> values;
    std::size_t points = 0;
  };
  std::map<std::string, std::map<std::string, Key>> studies;
  for (const std::vector<Otherwise>& point : points) {
    std::set<std::pair<std::string, std::string>> here;
    for (const Otherwise& one : point) {
      Key& key = studies[one.study][one.key];
      key.values.insert(fmt::format("{} ({})", plain(one.ours), plain(one.theirs)));
      if (here.emplace(one.study, one.key).second) ++key.points;
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [study, keys] : studies) {
    std::vector<std::string> parts;
    for (const auto& [name, key] : keys) {
      const std::string values =
          key.values.size() > kMostValues ? "differs" : fmt::format("{}", fmt::join(key.values, " or "));
      parts.push_back(fmt::format(
          "{} {}{}", name, values,
          key.points == points.size() ? "" : fmt::format(": {} of {} {}", key.points, points.size(), what)));
    }
    const std::size_t more = parts.size() > kMostKeys ? parts.size() - kMostKeys : 0;
    if (more > 0) parts.resize(kMostKeys);
    if (more > 0) parts.push_back(fmt::format("{} more keys", more));
    sentences.push_back(fmt::format("Otherwise than {}: {}.", printable_line(study), fmt::join(parts, "; ")));
  }
  return sentences;
}

std::string trained_text(const RecordList& runs) {
  std::map<std::string, std::set<std::string>> values;
  std::set<std::int64_t> steps;
  for (const Record* run : runs) {
    if (run->steps > 0) steps.insert(run->steps);
    for (const char* key :
         {"train.batch", "model.width", "model.d_key", "task.examples", "task.segments", "eval.sequences"})
      if (const auto value = config_text(*run, key); value && !value->empty())
        if (std::string(key) != "model.width" ||
            config_text(*run, "model.name") != "retrieval")  // it has none
          values[key].insert(*value);
  }
  if (steps.empty() || values["train.batch"].empty()) return "";
  const auto range = [](auto low, auto high) {
    return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high);
  };
  std::string text = fmt::format("Trained: {} steps of {} sequences", range(*steps.begin(), *steps.rbegin()),
                                 listed(values["train.batch"]));
  if (!values["model.width"].empty())
    text += fmt::format(", width {}", listed(values["model.width"]));
  else if (!values["model.d_key"].empty())
    text += fmt::format(", keys of {}", listed(values["model.d_key"]));
  if (!values["task.segments"].empty())
    text += fmt::format(", segments {}", fmt::join(values["task.segments"], " or "));
  else if (const auto& examples = values["task.examples"];
           !examples.empty() && examples != std::set<std::string>{"0"})
    text += fmt::format(", {} sequences over and over", listed(examples));
  else
    text += ", new sequences at every step";
  if (!values["eval.sequences"].empty())
    text += fmt::format("; read on {} sequences", listed(values["eval.sequences"]));
  return text + ".";
}

}  // namespace crosstalk
