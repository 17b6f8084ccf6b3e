// The studies of a search: a study a task, and that of its front, as trees of TOML and as text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "experiments/search/search_file.h"
#include "experiments/study/study_expand.h"

namespace crosstalk::search {
namespace {

using Kind = TomlNode::Kind;
constexpr std::int64_t kMostRuns = 1'000'000;

TomlNode scalar(OptionValue value, Position at) {
  TomlNode node;
  node.at = at;
  node.value = std::move(value);
  return node;
}
TomlNode made(Kind kind, Position at) {
  TomlNode node;
  node.kind = kind, node.at = at;
  return node;
}
void add(TomlNode& table, const std::string& key, TomlNode value) {
  const Position at = value.at;
  table.entries.push_back({key, at, std::move(value)});
}

std::string quoted(const std::string& key) {
  const bool bare = !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
  return bare ? key : '"' + key + '"';
}

/// As it stands behind "key = ".
std::string inline_text(const TomlNode& node) {
  if (node.kind == Kind::scalar) return to_text(node.value);
  std::string text;
  for (const TomlNode& item : node.items) text += (text.empty() ? "" : ", ") + inline_text(item);
  for (const TomlEntry& entry : node.entries)
    text += (text.empty() ? "" : ", ") + quoted(entry.key) + " = " + inline_text(entry.node);
  return node.kind == Kind::array ? "[" + text + "]" : "{ " + text + " }";
}

/// The lines of a table, with "train.max_steps = 300" for what stands in a table of its own.
std::string lines_of(const TomlNode& table) {
  static const std::vector<std::string> kPrefixes = {"task", "model", "memory", "train", "eval"};
  std::string text;
  for (const TomlEntry& entry : table.entries) {
    if (entry.node.kind != Kind::table || std::ranges::find(kPrefixes, entry.key) == kPrefixes.end()) {
      text += quoted(entry.key) + " = " + inline_text(entry.node) + "\n";
      continue;
    }
    for (const TomlEntry& inner : entry.node.entries)
      text += fmt::format("{}.{} = {}\n", entry.key, quoted(inner.key), inline_text(inner.node));
  }
  return text;
}

/// [study], [base] and the laws' tables; blocks are to be added.
TomlNode tree_of(const SearchFile& file, const std::string& name, TomlNode seeds,
                 const std::vector<LabelledLaw>& laws) {
  const Position at = file.root.find("search")->at;
  TomlNode root = made(Kind::table, at), study = root, memories = root;
  add(study, "name", scalar(name, at));
  add(study, "seeds", std::move(seeds));
  for (const LabelledLaw& law : laws) {
    TomlNode table = made(Kind::table, at);
    add(table, "name", scalar(std::string("rule"), at));
    add(table, "law", scalar(law.law, at));
    add(memories, law.label, std::move(table));
  }
  add(root, "study", std::move(study));
  if (const TomlEntry* base = file.root.find("base")) root.entries.push_back(*base);
  add(root, "memories", std::move(memories));
  return root;
}

/// A [[task]] or [[fresh]] as [[grid]], at the first `rates` rates.
TomlNode block_of(const SearchFile& file, TomlNode task, std::size_t rates) {
  TomlNode list = made(Kind::array, task.at);
  for (std::size_t i = 0; i < std::min(rates, file.rates.size()); ++i)
    list.items.push_back(scalar(file.rates[i], list.at));
  if (!list.items.empty()) add(task, "train.learning_rate", std::move(list));
  return task;
}

TomlNode front_tree(const SearchFile& file, const std::vector<LabelledLaw>& laws) {
  const Position at = file.root.find("search")->at;
  const std::int64_t first = 1000 + *std::ranges::max_element(file.seeds);
  TomlNode range = made(Kind::array, at), seeds = made(Kind::table, at), blocks = range;
  range.items = {scalar(first, at), scalar(first + file.fresh_seeds - 1, at)};
  add(seeds, "range", std::move(range));
  TomlNode root = tree_of(file, file.name + "_front", std::move(seeds), laws);
  if (const TomlEntry* others = file.root.find("memories"))
    for (const TomlEntry& other : others->node.entries) root.entries.back().node.entries.push_back(other);
  for (const char* table : {"task", "fresh"})
    if (const TomlEntry* tasks = file.root.find(table))
      for (const TomlNode& task : tasks->node.items)
        blocks.items.push_back(block_of(file, task, file.rates.size()));
  add(root, "grid", std::move(blocks));
  return root;
}

}  // namespace

std::vector<Run> runs_of(const Schema& schema, const SearchFile& file, std::size_t task,
                         const std::vector<LabelledLaw>& laws, std::size_t seeds, std::size_t rates) {
  const Position at = file.root.find("search")->at;
  TomlNode list = made(Kind::array, at), blocks = list;
  for (std::size_t i = 0; i < std::min(seeds, file.seeds.size()); ++i)
    list.items.push_back(scalar(file.seeds[i], at));
  blocks.items.push_back(block_of(file, file.root.find("task")->node.items.at(task), rates));
  TomlNode root = tree_of(file, file.name, std::move(list), laws);
  add(root, "grid", std::move(blocks));
  return study_of_tree(schema, root, {file.path, {}}, kMostRuns).runs;
}

Study front_of(const Schema& schema, const SearchFile& file, const std::vector<LabelledLaw>& laws) {
  return study_of_tree(schema, front_tree(file, laws), {file.path, {}}, kMostRuns);
}

std::string front_study(const SearchFile& file, const std::vector<LabelledLaw>& laws) {
  std::string text =
      fmt::format("# The best laws of the search {}, by seeds that it has not used{}.\n", file.name,
                  file.root.find("fresh") ? " and on tasks that it has not seen" : "");
  for (const TomlEntry& entry : front_tree(file, laws).entries) {
    if (entry.key == "memories") {
      for (const TomlEntry& one : entry.node.entries)
        text += fmt::format("[memories.{}]\n{}\n", quoted(one.key), lines_of(one.node));
    } else if (entry.node.kind == Kind::array) {
      for (const TomlNode& block : entry.node.items) text += "[[grid]]\n" + lines_of(block) + "\n";
    } else {
      text += fmt::format("[{}]\n{}\n", entry.key, lines_of(entry.node));
    }
  }
  return text;
}

std::string course_of(const SearchFile& file) {
  std::string text;
  for (const char* table : {"search", "base", "task"})
    if (const TomlEntry* entry = file.root.find(table)) {
      TomlNode node = entry->node;
      for (const char* free : {"minutes", "candidates", "finalists", "fresh_seeds", "name"})
        if (entry->key == "search")
          std::erase_if(node.entries, [&](const TomlEntry& one) { return one.key == free; });
      text += inline_text(node) + "\n";
    }
  for (const double weight : file.weights) text += fmt::format("{} ", weight);
  return text;
}

}  // namespace crosstalk::search
