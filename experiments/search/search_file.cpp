// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/search_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "experiments/study/study_expand.h"
#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "models/rules/rule_memory.h"

namespace crosstalk::search {
namespace {

using Kind = TomlNode::Kind;

/// Scalars of [search]; `start`, `seeds` and `rates` are lists, and read beside them.
const std::vector<OptionSpec>& options() {
  static const std::vector<OptionSpec> all = {
      {"name", std::string(), "of the search and its store, as of a study"},
      {"seed", std::int64_t{1}, "of the draws of laws", 0},
      {"minutes", 0.0, "of training before the best are trained afresh (0: no limit)", 0},
      {"candidates", std::int64_t{0}, "laws that are trained (0: no limit)", 0, 1e6},
      {"generation", std::int64_t{24}, "laws that are trained side by side before the next are drawn", 3,
       1e4},
      {"population", std::int64_t{24}, "laws from which others are made", 2, 1e4},
      {"age", std::int64_t{6}, "generations after which a law leaves the population", 1, 1e4},
      {"parents",
       std::string("evolved"),
       "random: every law is drawn at random",
       0,
       0,
       {"evolved", "random"}},
      {"labels", std::string("true"), "shuffled: answers of other sequences", 0, 0, {"true", "shuffled"}},
      {"operations", 0.0, "of a token, at most (0: no limit)", 0},
      {"floats", std::int64_t{0}, "of state, at most (0: no limit)", 0},
      {"gates", std::int64_t{4}, "learned quantities, at most", 0, 100},
      {"nodes", std::int64_t{24}, "operations of a law's graph, at most", 2, 200},
      {"states", std::int64_t{2}, "states, at most", 1, 8},
      {"finalists", std::int64_t{4}, "laws of the front that are trained afresh", 1, 100},
      {"fresh_seeds", std::int64_t{8}, "seeds of that", 2, 1000},
  };
  return all;
}

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

constexpr std::int64_t kMostRuns = 1'000'000;

class Reader {
 public:
  Reader(const Schema& schema, const std::string& text, const std::string& path)
      : schema_(schema), blame_{path, {}} {
    file_.path = path, file_.text = text;
  }

  SearchFile read() {
    if (file_.text.find_first_not_of(" \t\r\n") == std::string::npos)
      blame_.fail(Position{1, 1}, "the file is empty; a search begins with [search] and name = \"...\"");
    try {
      file_.root = parse_toml(file_.text);
    } catch (const TomlError& error) {
      blame_.fail(error.at, error.what());
    }
    static const std::vector<std::string> kTables = {"search", "base", "task", "fresh", "memories"};
    for (const TomlEntry& entry : file_.root.entries)
      if (std::ranges::find(kTables, entry.key) == kTables.end())
        blame_.fail(entry.at,
                    fmt::format("unknown table {}; a search has [search], [base], [[task]], and may have "
                                "[[fresh]] and [memories.LABEL]",
                                entry.key));
    const TomlEntry* head = file_.root.find("search");
    if (!head || head->node.kind != Kind::table)
      blame_.fail(Position{1, 1},
                  "the table [search] is missing; it holds name = \"...\", start = [\"LAW\"] and a budget");
    at_ = head->at;
    read_head(head->node);
    read_tasks();
    check_start();
    return std::move(file_);
  }

 private:
  const TomlNode& list(const TomlEntry& entry, const char* example) const {
    if (entry.node.kind != Kind::array || entry.node.items.empty())
      blame_.fail(entry.at, fmt::format("{} is a list, such as {} = {}", entry.key, entry.key, example));
    return entry.node;
  }

  void read_head(const TomlNode& head) {
    Options read;
    fill_defaults(read, "search", options());
    std::vector<std::string> names = {"start", "seeds", "rates"};
    for (const OptionSpec& spec : options()) names.push_back(spec.name);
    for (const TomlEntry& entry : head.entries) {
      const auto spec =
          std::ranges::find_if(options(), [&](const OptionSpec& one) { return one.name == entry.key; });
      if (entry.key == "start") {
        read_start(entry);
      } else if (entry.key == "seeds") {
        for (const TomlNode& item : list(entry, "[1, 2]").items) {
          const auto* seed = std::get_if<std::int64_t>(&item.value);
          if (!seed || item.kind != Kind::scalar) blame_.fail(item.at, "seeds are whole numbers");
          file_.seeds.push_back(*seed);
        }
      } else if (entry.key == "rates") {
        for (const TomlNode& item : list(entry, "[0.01, 0.003]").items) {
          const OptionSpec* rate = find_option(schema_, "", "", "train.learning_rate");
          const Setting setting{item.value, {item.at, -1}};
          check_setting(schema_, blame_, "train.learning_rate", setting);
          file_.rates.push_back(std::get<double>(option_value(*rate, "train.learning_rate", setting)));
        }
      } else if (spec == options().end()) {
        const std::string near = nearest_name(entry.key, names);
        blame_.fail(entry.at, fmt::format("unknown key {} in [search]; {}", entry.key,
                                          near.empty() ? "it has " + join_names(names)
                                                       : fmt::format("did you mean {}?", near)));
      } else {
        if (entry.node.kind != Kind::scalar)
          blame_.fail(entry.at, fmt::format("{} takes one value", entry.key));
        try {
          read.set("search." + spec->name, check_option(*spec, "search", entry.node.value));
        } catch (const OptionError& error) {
          blame_.fail(entry.node.at, error.what());
        }
      }
    }
    take(read);
    if (file_.name.empty()) blame_.fail(at_, "[search] has no name; add name = \"my_search\"");
    if (!head.find("start"))
      blame_.fail(at_,
                  "[search] has no start; add start = [\"S += v k^T; read S q\"], or start = \"random\"");
    if (file_.minutes == 0 && file_.candidates == 0)
      blame_.fail(at_,
                  "[search] has no budget; add minutes = 10, or candidates = 500 (laws that are trained)");
    if (file_.seeds.empty()) file_.seeds = {1};
  }

  void take(const Options& read) {
    const auto whole = [&](const char* key) { return narrow<int>(read, std::string("search.") + key); };
    file_.name = read.get_string("search.name");
    file_.seed = static_cast<std::uint64_t>(read.get_int("search.seed"));
    file_.minutes = read.get_double("search.minutes");
    file_.candidates = read.get_int("search.candidates");
    file_.random_parents = read.get_string("search.parents") == "random";
    file_.shuffled = read.get_string("search.labels") == "shuffled";
    file_.generation = whole("generation"), file_.population = whole("population"), file_.age = whole("age");
    file_.finalists = whole("finalists"), file_.fresh_seeds = whole("fresh_seeds");
    file_.limits.operations = read.get_double("search.operations");
    file_.limits.floats = read.get_int("search.floats");
    file_.limits.gates = whole("gates"), file_.limits.nodes = whole("nodes"),
    file_.limits.states = whole("states");
  }

  void read_start(const TomlEntry& entry) {
    const auto* word = std::get_if<std::string>(&entry.node.value);
    if (entry.node.kind == Kind::scalar && word && *word == "random") return;
    for (const TomlNode& item : list(entry, "[\"S += v k^T; read S q\"], or \"random\"").items) {
      const auto* law = std::get_if<std::string>(&item.value);
      if (!law) blame_.fail(item.at, "start is a list of laws, each in one string, or \"random\"");
      if (!blame_.refuse_law(schema_, {*law, {item.at, -1}})) {
        file_.start.push_back(canonical_text(*law));
        places_.push_back(item.at);
      }
    }
    blame_.settle();
  }

  void read_tasks() {
    const auto tasks =
        std::ranges::find_if(file_.root.entries, [](const auto& one) { return one.key == "task"; });
    const bool good =
        tasks != file_.root.entries.end() && tasks->node.kind == Kind::array && !tasks->node.items.empty() &&
        std::ranges::all_of(tasks->node.items, [](const auto& one) { return one.kind == Kind::table; });
    if (!good)
      blame_.fail(
          tasks == file_.root.entries.end() ? at_ : tasks->at,
          "no task to search on; add [[task]] with task.name = \"recall\" (several such tables are several tasks)");
    static const OptionSpec kWeight = {"weight", 1.0, "", 1e-6};
    for (TomlNode& task : tasks->node.items) {
      double weight = 1;
      if (const TomlEntry* entry = task.find("weight")) {
        try {
          weight = std::get<double>(check_option(kWeight, "search", entry->node.value));
        } catch (const OptionError& error) {
          blame_.fail(entry->node.at, error.what());
        }
      }
      std::erase_if(task.entries, [](const TomlEntry& entry) { return entry.key == "weight"; });
      file_.weights.push_back(weight);
    }
  }

  /// Of all tasks and [[fresh]]: the reader of studies sees to keys and values. And the sizes of a head, for prices.
  void check_start() {
    const std::string sum = "S += v k^T; read S q";
    std::vector<LabelledLaw> laws = {{"start", file_.start.empty() ? sum : file_.start[0]}};
    for (std::size_t task = 0; task < file_.tasks(); ++task) {
      const std::vector<Run> runs = runs_of(schema_, file_, task, {{"sum", sum}}, 1, 1);
      const Run& run = runs.front();
      const std::int64_t K = run.d_dot > 0 ? run.d_dot : run.config.get_int("model.d_key");
      file_.limits.K = std::max(task > 0 ? file_.limits.K : 0, static_cast<int>(K));
      file_.limits.V = std::max(task > 0 ? file_.limits.V : 0,
                                static_cast<int>(run.state_size / std::max<std::int64_t>(1, K)));
      if (run.config.get_int("train.max_steps") < 3 * run.config.get_int("eval.every") &&
          run.config.get_int("eval.every") > 0)
        blame_.fail(
            at_,
            fmt::format(
                "laws are looked at after a third of their steps, but train.max_steps = {} is less than three "
                "times eval.every = {}; evaluate more often",
                run.config.get_int("train.max_steps"), run.config.get_int("eval.every")));
    }
    for (std::size_t i = 0; i < file_.start.size(); ++i) {
      if (const auto over = exceeds(price(file_.start[i], file_.limits.K, file_.limits.V), file_.limits))
        blame_.fail(
            places_[i],
            fmt::format(
                "{}: this start law is beyond the limits of [search]: {}; raise them, or start otherwise",
                file_.start[i], *over));
      if (const auto why = unstable(file_.start[i]))
        blame_.fail(places_[i], fmt::format("{}: this start law would not train: {}", file_.start[i], *why));
    }
    study_of_tree(schema_, front_tree(file_, laws), blame_, kMostRuns);
  }

  const Schema& schema_;
  const Blame blame_;
  SearchFile file_;
  Position at_;
  std::vector<Position> places_;  ///< of the start laws
};

}  // namespace

SearchFile read_search(const Schema& schema, const std::string& text, const std::string& path) {
  return Reader(schema, text, path).read();
}

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
