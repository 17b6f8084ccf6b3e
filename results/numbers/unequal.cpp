// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/unequal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

namespace crosstalk {
namespace {

/// Keys that say which memory it is, what follows from others (digests do), and forms of equal results.
bool passed_over(const std::string& key) {
  static const std::set<std::string> keys = {
      "memory.name",      "memory.form", "memory.source", "memory.files",    "memory.d_dot",
      "memory.arguments", "model.parts", "model.name",    "model.embedding", "model.layer"};
  return key.ends_with("digest") || keys.count(key) != 0;
}

/// Parts that a memory without the option has none of: it is compared all the same.
bool none_if_absent(const std::string& key) {
  return key == "memory.feature_map" || key == "memory.key_norm" || key == "memory.read_norm";
}

/// True where a law has a name as a word: numbers beside it, memory.c, c2 and c3, are of laws that name them.
bool has_word(const std::string& law, const std::string& name) {
  const auto in_word = [&](std::size_t at) {
    return at < law.size() && (std::isalnum(static_cast<unsigned char>(law[at])) != 0 || law[at] == '_');
  };
  for (std::size_t at = law.find(name); at != law.npos; at = law.find(name, at + 1))
    if (!in_word(at - 1) && !in_word(at + name.size())) return true;
  return false;
}

/// What is asked of a model and how it was trained; where it goes by something else, such as --by, nobody takes labels for equal.
bool is_of_the_task(const std::string& key) { return key.starts_with("task.") || key.starts_with("train."); }

/// The task and the training come first, then what changes what is stored, the memory's own, and the layer's.
int rank_of(const std::string& key) {
  return is_of_the_task(key) ? 0 : none_if_absent(key) ? 1 : key.starts_with("memory.") ? 2 : 3;
}

/// Whether one name stands with several values.
bool shares_names(const std::map<std::string, std::vector<std::string>>& names) {
  std::set<std::string> seen;
  for (const auto& [value, labels] : names)
    for (const std::string& label : labels)
      if (!seen.insert(label).second) return true;
  return false;
}

/// "identity (A, B and 3 more)".
std::string value_text(const std::string& value, const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 3;
  const std::size_t named = names.size() <= kNamed ? names.size() : kNamed - 1;
  const std::string list =
      fmt::format("{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(named), ", "));
  return fmt::format("{} ({}{})", value.empty() ? "\"\"" : value, list,
                     named < names.size() ? fmt::format(" and {} more", names.size() - named) : "");
}

}  // namespace

void UnequalOptions::add(const std::string& label, const std::string& key, const std::string& value) {
  if (key == "memory.name") labels_[label] = value == "python";
  if (!passed_over(key) && (is_of_the_task(key) || key.starts_with("memory.") || key.starts_with("model.")))
    values_[key][label].insert(value);
}

void UnequalOptions::add(const Record& record) {
  labels_.try_emplace(record.label, false);
  std::vector<Configuration::Entry>& before = last_[record.label];
  const std::vector<Configuration::Entry>& now = record.config.entries();
  for (std::size_t i = 0; i < now.size(); ++i)  // most values are those of the label's run before
    if ((now[i].key->starts_with('m') || now[i].key->starts_with('t')) &&
        (i >= before.size() || now[i] != before[i]))
      add(record.label, *now[i].key, *now[i].value->text);
  before = now;
}

std::string UnequalOptions::text(const std::function<std::string(const std::string& label)>& name,
                                 std::size_t most, const std::vector<std::string>& swept) const {
  std::vector<std::pair<int, std::string>> parts;
  const auto is_unnamed = [&](const std::string& key, const std::string& label) {
    const auto laws = values_.find("memory.law");
    if (laws == values_.end() || (key != "memory.c" && key != "memory.c2" && key != "memory.c3"))
      return false;
    const auto law = laws->second.find(label);
    return law != laws->second.end() && !has_word(*law->second.begin(), key.substr(7));
  };
  for (const auto& [key, of_label] : values_) {
    const bool is_swept =
        std::ranges::find(swept, key) != swept.end() ||
        std::ranges::any_of(of_label, [](const auto& one) { return one.second.size() > 1; });
    if (is_swept) continue;
    std::map<std::string, std::vector<std::string>> names;  // by value
    std::set<std::pair<std::string, std::string>> known;    // value and name: studies may have 60,000 labels
    for (const auto& [label, is_torch] : labels_) {
      const auto own = of_label.find(label);
      if (own == of_label.end() && (is_torch || !none_if_absent(key))) continue;
      if (is_unnamed(key, label)) continue;
      const std::string value = own == of_label.end() ? "none" : *own->second.begin();
      const std::string called = name(label) + (is_torch ? ", PyTorch" : "");
      if (known.emplace(value, called).second) names[value].push_back(called);
    }
    if (names.size() < 2 || (is_of_the_task(key) && shares_names(names))) continue;
    std::vector<std::string> texts;
    if (key == "memory.law") texts.push_back(fmt::format("{} of them", names.size()));
    for (const auto& [value, labels] : names)
      if (key != "memory.law") texts.push_back(value_text(value, labels));
    parts.emplace_back(rank_of(key),
                       fmt::format("{}: {}", key == "task.name" ? "task" : key.substr(key.find('.') + 1),
                                   fmt::join(texts, ", ")));
  }
  std::ranges::stable_sort(parts, [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t more = parts.size() > most ? parts.size() - most : 0;
  std::string text;
  for (std::size_t i = 0; i + more < parts.size(); ++i) text += (i > 0 ? "; " : "") + parts[i].second;
  return more > 0 ? fmt::format("{}; and {} more", text, more) : text;
}

std::string unequal_text(const RecordList& records,
                         const std::function<std::string(const std::string& label)>& name, std::size_t most,
                         const std::vector<std::string>& swept) {
  UnequalOptions options;
  for (const Record* record : records) options.add(*record);
  const std::string text = options.text(name, most, swept);
  return text.empty() ? "" : fmt::format("Labels differ in {}.", text);
}

}  // namespace crosstalk
