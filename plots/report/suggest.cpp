// Which figures suit records.
// SPDX-License-Identifier: Apache-2.0
#include "plots/report/suggest.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "plots/drawing/drawing.h"

namespace crosstalk {
namespace {

constexpr std::size_t kMostPanels = 6;
constexpr const char* kRate = "train.learning_rate";

/// A key's place among those that say the same.
int rank_of(const std::string& key) {
  static const std::vector<std::string> first = {
      "task.name",   "task.pairs",  "task.associations",   "task.length",        "task.operations",
      "model.width", "model.d_key", "train.learning_rate", "train.weight_decay", "model.name"};
  static const std::set<std::string> derived = {"memory.d_dot", "model.embedding", "model.d_value"};
  const auto found = std::ranges::find(first, key);
  if (found != first.end()) return static_cast<int>(found - first.begin());
  if (derived.count(key) != 0) return 100;
  int rank = 20;
  for (const char* part : {"model.", "memory.", "task.", "train.", "eval."}) {
    if (key.starts_with(part)) return rank;
    ++rank;
  }
  return rank;
}

std::set<std::string> different_values(const RecordList& records, const std::string& key) {
  std::set<std::string> values;
  for (const Record* record : records)
    if (const auto value = config_text(*record, key)) values.insert(*value);
  return values;
}

bool any_profile(const RecordList& records, const std::string& part) {
  return std::ranges::any_of(records, [&](const Record* record) {
    return std::ranges::any_of(record->profiles,
                               [&](const auto& one) { return one.first.find(part) != std::string::npos; });
  });
}

/// The options with what the records need: rates chosen, other keys as panels and lines.
FigureOptions completed(FigureOptions options, const RecordList& records, const std::string& x) {
  const bool by_given = !options.by.empty() || !options.facet.empty(), best_given = !options.best.empty();
  for (const std::string& key : differing_keys(records)) {
    if (key == x || key == options.x) continue;
    if (key == kRate || key == "train.weight_decay") {
      if (!best_given) options.best.push_back(key);
    } else if (!by_given) {
      if (options.facet.empty() && different_values(records, key).size() <= kMostPanels)
        options.facet = key;
      else
        options.by.push_back(key);
    }
  }
  return options;
}

std::string table_of(const std::string& figure) {
  if (figure == "updates" || figure == "tracking" || figure == "difference") return figure;
  if (figure == "capacity" || figure == "accuracy") return "final";
  return figure.starts_with("capacity-vs-") ? "capacity" : "";
}

/// The figures of one task's records.
std::vector<std::string> names_for(const RecordList& records, const std::string& x) {
  const auto all = [&](const char* key, const char* value) {
    return std::ranges::all_of(records,
                               [&](const Record* record) { return config_text(*record, key) == value; });
  };
  if (all("model.name", "probe")) return {"probe"};
  const bool loads = x == "task.associations", language = all("model.name", "language");
  std::vector<std::string> names;
  if (any_profile(records, "operations")) names.emplace_back("tracking");
  if (loads && !language) {
    names.emplace_back(all("task.name", "reassign") ? "updates" : "capacity");
    if (different_values(records, x).size() > 2) {
      std::set<std::int64_t> sizes, states;
      for (const Record* record : records) {
        sizes.insert(record->d_dot);
        if (record->state_size > 0) states.insert(record->state_size);
      }
      if (sizes.size() > 3) names.emplace_back("capacity-vs-ddot");
      if (states.size() > 3) names.emplace_back("capacity-vs-state");
    }
  } else if (!x.empty()) {
    names.emplace_back("accuracy");
  }
  if (any_profile(records, "length")) names.emplace_back("length");
  const bool curves =
      std::ranges::any_of(records, [](const Record* record) { return !record->curves.empty(); });
  if (names.empty()) names = {curves ? "curves" : "accuracy"};  // one setting: nothing to stand against
  std::set<std::string> labels;
  for (const Record* record : records) labels.insert(record->label);
  if (labels.size() > 1) names.emplace_back("difference");
  return names;
}

}  // namespace

std::vector<std::string> differing_keys(const RecordList& records) {
  std::vector<std::string> keys;
  for (const auto& [key, varies] : config_keys(records))
    if (varies && !is_seed_key(key)) keys.push_back(key);
  std::ranges::stable_sort(
      keys, [](const std::string& a, const std::string& b) { return rank_of(a) < rank_of(b); });
  std::map<std::string, std::size_t> labels;
  std::vector<std::size_t> classes;
  for (const Record* record : records)
    classes.push_back(labels.try_emplace(record->label, labels.size()).first->second);
  std::size_t count = labels.size();
  std::vector<std::string> differing;
  for (const std::string& key : keys) {
    std::map<std::pair<std::size_t, const std::string*>, std::size_t> finer;  // equal texts are one
    std::vector<std::size_t> of_records;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const Configuration::Value* value = records[i]->config.value_of(key);
      const std::string* text = value == nullptr || value->text->empty() ? nullptr : value->text;
      of_records.push_back(finer.try_emplace({classes[i], text}, finer.size()).first->second);
    }
    if (finer.size() == count) continue;
    count = finer.size();
    classes = std::move(of_records);
    differing.push_back(key);
  }
  return differing;
}

std::vector<SuggestedFigure> suggested_figures(const LabelledRecords& rows, const FigureOptions& options,
                                               const std::string& figure, bool rates_chosen) {
  const RecordList records = choose_records(list_of(rows.rows), options.where);
  std::set<std::string> tasks = different_values(records, "task.name");
  if (tasks.empty()) tasks.insert("");
  std::vector<SuggestedFigure> figures;
  for (const std::string& task : tasks) {
    RecordList part;
    for (const Record* record : records)
      if (task.empty() || config_text(*record, "task.name") == task) part.push_back(record);
    FigureOptions given = options;
    if (tasks.size() > 1) given.where["task.name"] = task;
    std::ostringstream unsaid;
    FigureOptions on_axis = given;
    if (rates_chosen) on_axis.best.emplace_back(kRate);
    const std::string x = varying_key({part, {}, on_axis, unsaid});
    const std::vector<std::string> names =
        figure.empty() ? names_for(part, x) : std::vector<std::string>{figure};
    for (const std::string& name : names) {
      FigureOptions own = completed(given, part, name == "curves" ? "" : x);
      // Sizes are on the axis of the one, and panels of the other.
      if ((name.starts_with("capacity-vs-") || name == "probe") && options.facet.empty()) own.facet.clear();
      if (name != "accuracy" && name != "difference") own.x.clear();
      if (name != "difference") own.against.clear();
      figures.push_back({name, table_of(name), std::move(own)});
    }
  }
  return figures;
}

}  // namespace crosstalk
