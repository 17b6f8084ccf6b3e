// The studies of a search: a study a task, and that of its front, as trees of TOML and as text.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "experiments/search/search_file.h"
#include "experiments/study/study_expand.h"

namespace crosstalk::search {
namespace {

using Kind = TomlNode::Kind;
constexpr std::int64_t kMostRuns = 1'000'000;

/// What a text says, all of it at a place of the search's file.
TomlNode placed(TomlNode node, Position at) {
  node.at = at;
  for (TomlNode& item : node.items) item = placed(std::move(item), at);
  for (TomlEntry& entry : node.entries) entry.at = at, entry.node = placed(std::move(entry.node), at);
  return node;
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

template <class T>
std::vector<T> first_of(std::vector<T> all, std::size_t count) {
  all.resize(std::min(count, all.size()));
  return all;
}

/// [study], [base], the laws' tables, and blocks of the grid.
TomlNode tree_of(const SearchFile& file, const std::string& name, const std::string& seeds,
                 const std::vector<LabelledLaw>& laws, std::vector<TomlNode> blocks, std::size_t rates) {
  const Position at = file.root.find("search")->at;
  std::string text = fmt::format("[study]\nname = \"\"\nseeds = {}\n", seeds);
  for (const LabelledLaw& law : laws)
    text += fmt::format("[memories.{}]\nname = \"rule\"\nlaw = {}\n", law.label, crosstalk::to_text(law.law));
  TomlNode root = placed(parse_toml(text), at), grid;
  root.entries[0].node.entries[0].node.value = name;  // the reader of studies sees to its letters
  if (const TomlEntry* base = file.root.find("base")) root.entries.insert(root.entries.begin() + 1, *base);
  grid.kind = Kind::array, grid.at = at, grid.items = std::move(blocks);
  for (TomlNode& block : grid.items)
    if (!file.rates.empty())
      block.entries.push_back(
          placed(parse_toml(fmt::format("\"train.learning_rate\" = {}", first_of(file.rates, rates))),
                 block.at)
              .entries[0]);
  root.entries.push_back({"grid", at, std::move(grid)});
  return root;
}

TomlNode front_tree(const SearchFile& file, const std::vector<LabelledLaw>& laws) {
  const std::int64_t first = 1000 + *std::ranges::max_element(file.seeds);
  std::vector<TomlNode> blocks;
  for (const char* table : {"task", "fresh"})
    if (const TomlEntry* tasks = file.root.find(table))
      blocks.insert(blocks.end(), tasks->node.items.begin(), tasks->node.items.end());
  TomlNode root = tree_of(file, file.name + "_front",
                          fmt::format("{{ range = [{}, {}] }}", first, first + file.fresh_seeds - 1), laws,
                          std::move(blocks), file.rates.size());
  auto& memories = std::ranges::find(root.entries, "memories", &TomlEntry::key)->node.entries;
  if (const TomlEntry* others = file.root.find("memories"))
    memories.insert(memories.end(), others->node.entries.begin(), others->node.entries.end());
  return root;
}

}  // namespace

std::vector<Run> runs_of(const Schema& schema, const SearchFile& file, std::size_t task,
                         const std::vector<LabelledLaw>& laws, std::size_t seeds, std::size_t rates) {
  const TomlNode root = tree_of(file, file.name, fmt::format("{}", first_of(file.seeds, seeds)), laws,
                                {file.root.find("task")->node.items.at(task)}, rates);
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
