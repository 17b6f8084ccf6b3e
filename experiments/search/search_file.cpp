// SPDX-License-Identifier: Apache-2.0
#include "experiments/search/search_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "experiments/study/study_expand.h"
#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "models/rules/rule_memory.h"
#include "models/rules/text.h"

namespace crosstalk::search {

const std::vector<OptionSpec>& search_options() {
  static const std::vector<OptionSpec> all = {
      {"name", std::string(), "of the search and its store, as of a study"},
      {"start", std::string(), "a list of laws, each in one string, or \"random\""},
      {"minutes", 0.0,
       "the budget, or a part of it: of training before the best are trained afresh (0: no limit)", 0},
      {"candidates", std::int64_t{0}, "the budget, or a part of it: laws that are trained (0: no limit)", 0,
       1e6},
      {"operations", 0.0, "operations a token, at most (0: no limit)", 0},
      {"floats", std::int64_t{0}, "floats of state, at most (0: no limit)", 0},
      {"gates", std::int64_t{4}, "learned quantities, at most (0: no limit)", 0, 100},
      {"nodes", std::int64_t{24}, "operations of a law's graph, at most", 2, 200},
      {"states", std::int64_t{2}, "states, at most", 1, 8},
      {"seed", std::int64_t{1}, "of the draws of laws", 0},
      {"seeds", std::int64_t{1}, "a list: of trainings; all laws have the first, those of the front all", 0},
      {"rates", 0.0, "a list of train.learning_rate, as seeds is one; if not given, that of [base]", 0},
      {"generation", std::int64_t{24}, "laws that are trained side by side before the next are drawn", 3,
       1e4},
      {"population", std::int64_t{24}, "laws from which others are made", 2, 1e4},
      {"age", std::int64_t{6}, "generations after which a law leaves the population", 1, 1e4},
      {"finalists", std::int64_t{4}, "laws of the front that are trained afresh", 1, 100},
      {"fresh_seeds", std::int64_t{8}, "seeds of that", 2, 1000},
      {"parents",
       std::string("evolved"),
       "random: every law is drawn at random, for a search of the same cost to hold this one against",
       0,
       0,
       {"evolved", "random"}},
      {"labels",
       std::string("true"),
       "shuffled: every answer is that of another sequence, so that there is nothing to be found; nothing of it is kept as a result",
       0,
       0,
       {"true", "shuffled"}},
  };
  return all;
}

namespace {

using Kind = TomlNode::Kind;

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
                    entry.key == "study"
                        ? fmt::format("this is a study; to train it: crosstalk run {}", file_.path)
                        : fmt::format("unknown table {}; a search has [search], [base], [[task]], and may "
                                      "have [[fresh]] and [memories.LABEL]",
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
  const std::vector<TomlNode>& list(const TomlEntry& entry, const char* example) const {
    if (entry.node.kind != Kind::array || entry.node.items.empty())
      blame_.fail(entry.at, fmt::format("{} is a list, such as {} = {}", entry.key, entry.key, example));
    return entry.node.items;
  }

  OptionValue value(const OptionSpec& spec, const TomlNode& node) const {
    if (node.kind != Kind::scalar) blame_.fail(node.at, fmt::format("{} takes one value", spec.name));
    try {
      return check_option(spec, "search", node.value);
    } catch (const OptionError& error) {
      blame_.fail(node.at, error.what());
    }
  }

  void read_head(const TomlNode& head) {
    Options read;
    fill_defaults(read, "search", search_options());
    std::vector<std::string> names;
    for (const OptionSpec& spec : search_options()) names.push_back(spec.name);
    for (const TomlEntry& entry : head.entries) {
      const auto spec = std::ranges::find(search_options(), entry.key, &OptionSpec::name);
      if (spec == search_options().end()) {
        const std::string near = nearest_name(entry.key, names);
        blame_.fail(entry.at, fmt::format("unknown key {} in [search]; {}", entry.key,
                                          near.empty() ? "it has " + join_names(names)
                                                       : fmt::format("did you mean {}?", near)));
      } else if (entry.key == "start") {
        read_start(entry);
      } else if (entry.key == "seeds") {
        for (const TomlNode& item : list(entry, "[1, 2]"))
          file_.seeds.push_back(std::get<std::int64_t>(value(*spec, item)));
      } else if (entry.key == "rates") {
        for (const TomlNode& item : list(entry, "[0.01, 0.003]"))
          file_.rates.push_back(std::get<double>(value(*spec, item)));
      } else {
        read.set("search." + spec->name, value(*spec, entry.node));
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
    for (const TomlNode& item : list(entry, "[\"S += v k^T; read S q\"], or \"random\"")) {
      const auto* law = std::get_if<std::string>(&item.value);
      if (!law) blame_.fail(item.at, "start is a list of laws, each in one string, or \"random\"");
      if (!blame_.refuse_law(schema_, {*law, {item.at, -1}})) {
        try {
          file_.start.push_back(canonical_text(*law));
        } catch (const rules::LawError& error) {
          blame_.fail(item.at, fmt::format("{}: a search has no place for this law: {}", *law, error.what()));
        }
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
      const TomlEntry* weight = task.find("weight");
      file_.weights.push_back(weight ? std::get<double>(value(kWeight, weight->node)) : 1);
      std::erase_if(task.entries, [](const TomlEntry& entry) { return entry.key == "weight"; });
    }
  }

  /// Of all tasks and [[fresh]]: the reader of studies sees to keys and values. And the sizes of a head, for prices.
  void check_start() {
    const std::string sum = kPlainSum;
    std::vector<LabelledLaw> laws = {{"start", file_.start.empty() ? sum : file_.start[0]}};
    for (std::size_t task = 0; task < file_.tasks(); ++task) {
      const std::vector<Run> runs = runs_of(schema_, file_, task, {{"sum", sum}}, 1, 1);
      for (const Run& run : runs) file_.settings.insert(task_setting(run));
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
    if (const auto over = exceeds(price(sum, file_.limits.K, file_.limits.V), file_.limits);
        over && file_.start.empty())
      blame_.fail(at_, fmt::format("no law keeps to the limits of [search]: of {} already, {}; raise them",
                                   sum, *over));
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
    front_of(schema_, file_, laws);
  }

  const Schema& schema_;
  const Blame blame_;
  SearchFile file_;
  Position at_;
  std::vector<Position> places_;  ///< of the start laws
};

}  // namespace

std::string task_setting(const Run& run) {
  std::string text;
  for (const auto& [key, value] : run.config.values())
    if (key.starts_with("task.")) text += key + "=" + crosstalk::to_text(value) + "\n";
  return text;
}

SearchFile read_search(const Schema& schema, const std::string& text, const std::string& path) {
  return Reader(schema, text, path).read();
}

}  // namespace crosstalk::search
