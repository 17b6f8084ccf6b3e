// crosstalk describe: everything the registries know of one name.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/help/descriptions.h"
#include "experiments/program/help/topics.h"
#include "experiments/search/search_file.h"
#include "experiments/study/schema.h"
#include "experiments/training/training.h"
#include "kernels/base/text/names.h"
#include "models/model.h"

namespace crosstalk::program {
namespace {

using Json = nlohmann::ordered_json;

/// A list of options under one prefix, and what it belongs to.
struct Section {
  std::string prefix;  ///< "task"
  std::string owner;   ///< "recall", "" for train, eval and model
  const std::vector<OptionSpec>* options;
};

std::vector<Section> sections() {
  std::vector<Section> all;
  for (const TaskKind& kind : task_kinds()) all.push_back({"task", kind.name, &kind.options});
  for (const Memory& kind : all_memories()) all.push_back({"memory", kind.name, &kind.options});
  all.push_back({"model", "", &model_options()});
  all.push_back({"train", "", &train_options()});
  all.push_back({"eval", "", &eval_options()});
  all.push_back({"search", "", &search::search_options()});
  return all;
}

/// Whether two names are one, in any case and with hyphens for underscores.
bool same_name(const std::string& a, const std::string& b) {
  const auto folded = [](unsigned char c) { return c == '-' ? '_' : std::tolower(c); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](unsigned char x, unsigned char y) { return folded(x) == folded(y); });
}

/// What stands under `name`: things, sections, dotted keys, in this order.
std::vector<Description> find(const std::string& name) {
  std::vector<Description> found;
  for (const TaskKind& kind : task_kinds())
    if (same_name(kind.name, name)) found.push_back(describe(kind));
  for (const Memory& kind : all_memories())
    if (same_name(kind.name, name)) found.push_back(describe(kind));
  for (const FeatureMapInfo& info : feature_map_infos())
    if (same_name(info.name, name)) found.push_back(describe(info));
  for (const FigureKind& kind : figure_kinds())
    if (same_name(kind.name, name)) found.push_back(describe(kind));
  for (const Topic& topic : topics())
    if (same_name(topic.name, name))
      found.push_back(
          {fmt::format("{}: {}\n\n{}", topic.name, topic.summary, wrap(topic.text, kDescribedWidth)),
           {{"kind", "topic"}, {"name", topic.name}, {"summary", topic.summary}, {"text", topic.text}}});
  for (const Topic& column : columns())
    if (same_name(column.name, name) || (column.name == "provenance" && name.starts_with("provenance.")))
      found.push_back({fmt::format("{} (column of an export): {}\n", column.name, column.summary),
                       {{"kind", "column"}, {"name", column.name}, {"summary", column.summary}}});
  if (same_name(name, "columns") || same_name(name, "column")) {
    std::string text = "Columns of an export beside the keys of the configuration:\n\n";
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const Topic& column : columns()) {
      text += wrap(fmt::format("{}: {}", column.name, column.summary), kDescribedWidth);
      names.push_back({{"name", column.name}, {"summary", column.summary}});
    }
    found.push_back({text, {{"kind", "columns"}, {"columns", names}}});
  }
  for (const Section& section : sections()) {
    const std::string of =
        section.owner.empty() ? "" : fmt::format(" of {} {}", section.prefix, section.owner);
    if (section.owner.empty() && same_name(section.prefix, name))
      found.push_back({fmt::format("[{}] (section of a {}){}", section.prefix,
                                   section.prefix == "search" ? "file of crosstalk search" : "study's base",
                                   options_text(section.prefix, *section.options)),
                       {{"kind", "section"},
                        {"name", section.prefix},
                        {"options", options_json(section.prefix, *section.options)}}});
    for (const OptionSpec& spec : *section.options) {
      const std::string key = section.prefix + "." + spec.name;
      if (!same_name(key, name)) continue;
      Json json = {{"kind", "option"}};
      if (!section.owner.empty()) json[section.prefix] = section.owner;
      json.update(option_json(section.prefix, spec));
      found.push_back({fmt::format("{} (option{})\n{}", key, of, option_text(section.prefix, spec)), json});
    }
  }
  return found;
}

/// Options that `is` picks, those that read alike of several tasks or memories as one.
template <class F>
std::vector<Description> options_where(F is, const std::string& remark) {
  struct Alike {
    std::string key, text;
    std::vector<std::string> owners;
    Json json;
  };
  std::vector<Alike> all;
  for (const Section& section : sections()) {
    for (const OptionSpec& spec : *section.options) {
      if (!is(spec)) continue;
      const std::string text = option_text(section.prefix, spec);
      auto at = std::ranges::find_if(all, [&](const Alike& one) { return one.text == text; });
      if (at == all.end()) {
        Json json = {{"kind", "option"}};
        json.update(option_json(section.prefix, spec));
        at = all.insert(at, {section.prefix + "." + spec.name, text, {}, json});
      }
      if (!section.owner.empty()) at->owners.push_back(section.owner);
    }
  }
  std::vector<Description> found;
  for (Alike& one : all) {
    const std::string kind = one.key.substr(0, one.key.find('.'));
    std::string text = fmt::format("{}{} (option)\n{}", remark, one.key, one.text);
    if (!one.owners.empty())
      text += wrap(fmt::format("Of {} {}.", one.owners.size() > 1 && kind == "memory" ? "memories" : kind,
                               join(one.owners, ", ", " and ")),
                   kDescribedWidth, "      ");
    if (!one.owners.empty()) one.json[kind == "task" ? "tasks" : "memories"] = one.owners;
    found.push_back({text, one.json});
  }
  return found;
}

/// What somebody may mean who gives a key without its table, or the value of an option.
std::vector<Description> find_loosely(const std::string& name) {
  std::vector<Description> found =
      options_where([&](const OptionSpec& spec) { return same_name(spec.name, name); }, "");
  if (!found.empty()) return found;
  return options_where(
      [&](const OptionSpec& spec) {
        return std::ranges::any_of(spec.choices,
                                   [&](const std::string& choice) { return same_name(choice, name); });
      },
      fmt::format("{} is a value of ", name));
}

std::vector<std::string> known_names() {
  std::vector<std::string> names = names_of(task_kinds());
  for (const Memory& kind : all_memories()) names.push_back(kind.name);
  for (const FeatureMapInfo& info : feature_map_infos()) names.push_back(info.name);
  for (const FigureKind& kind : figure_kinds()) names.push_back(kind.name);
  for (const Topic& topic : topics()) names.push_back(topic.name);
  for (const Topic& column : columns()) names.push_back(column.name);
  for (const Section& section : sections()) {
    if (section.owner.empty()) names.push_back(section.prefix);
    for (const OptionSpec& spec : *section.options) names.push_back(section.prefix + "." + spec.name);
  }
  return names;
}

/// What people ask for that has no entry of its own; "" for anything else.
std::string answer_to(const std::string& name) {
  if (name == "python")
    return "the package is 'import crosstalk' (docs/python.md), and a PyTorch model is a memory of a study there. Without it, 'crosstalk export "
           "STORE' writes for pandas, 'crosstalk sample TASK --out DIR' and 'crosstalk apply' for numpy; 'crosstalk describe published-csv' says how "
           "your own results come in";
  if (name == "mad" || name == "mad-lab")
    return "the tasks of MAD are mad_recall (in-context, noisy and fuzzy recall), selective_copy, memorise and compression, all in "
           "experiments/mad.toml; its own arrays are read by task tokens (docs/own_data.md)";
  return "";
}

/// The memory that papers call `name`; "" for any other word.
std::string memory_of_papers(const std::string& name) {
  const std::vector<std::string> memories = names_of(all_memories());
  return synonym_of(name, memories);
}

std::string folded(std::string name) {
  std::ranges::replace(name, ' ', '_');
  return name;
}

std::vector<Description> find_all(const std::string& name) {
  const std::vector<Description> found = find(name);
  return found.empty() ? find_loosely(name) : found;
}

int run_describe(const Arguments& arguments, Console& console) {
  const std::string name = fmt::format("{}", fmt::join(arguments.positional, " "));  // Gated DeltaNet
  const std::vector<Description> found = find_all(folded(name));
  if (found.empty()) {
    const std::string meant = meant_by(name);
    throw UsageError(fmt::format("describe: nothing is called '{}'; {}", name,
                                 meant.empty() ? "'crosstalk list tasks|memories|feature-maps|figures' lists "
                                                 "names, 'crosstalk reference' all keys"
                                               : meant));
  }
  if (arguments.has("json")) {
    Json json = Json::array();
    for (const Description& description : found) json.push_back(description.json);
    console.out << dump(found.size() == 1 ? json[0] : json);
  } else {
    console.out << described(name);
  }
  return exit_done;
}

}  // namespace

std::string described(const std::string& name) {
  const std::vector<Description> found = find_all(folded(name));
  if (found.empty()) return "";
  std::string text;
  // Mamba is a value of an option, but who asks means the memory.
  if (const std::string memory = memory_of_papers(name); found[0].json["kind"] == "option" && !memory.empty())
    text = fmt::format("The memory is {}: 'crosstalk describe {}'.\n\n", memory, memory);
  for (std::size_t i = 0; i < found.size(); ++i) text += (i > 0 ? "\n" : "") + found[i].text;
  return text;
}

std::string meant_by(const std::string& name) {
  if (name == "task" || name == "memory")
    return fmt::format(
        "the keys of [{0}] depend on which {0} it is; 'crosstalk list {1}' lists them, 'crosstalk describe "
        "NAME' shows the keys of one",
        name, name == "task" ? "tasks" : "memories");
  std::string small = name;
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const std::string answer = answer_to(small); !answer.empty()) return answer;
  const std::vector<std::string> names = known_names();
  const std::string last = name.substr(name.find('.') == std::string::npos ? 0 : name.find('.') + 1);
  std::string near = synonym_of(last, names);
  // A key under another table; a table alone would look near to all its short keys.
  for (const std::string& known : names)
    if (near.empty() && last != name && known.ends_with("." + last)) near = known;
  if (near.empty()) near = nearest_name(name, names);
  return near.empty() ? "" : fmt::format("did you mean '{}'?", near);
}

bool is_described(const std::string& name) { return !find_all(name).empty(); }

extern const Command describe_command = {
    "describe",
    "explain a task, memory, feature map, figure, option, column or part of a study",
    "NAME [--json]",
    "NAME is a task, memory, feature map or figure ('crosstalk list' lists them), a section (train,\n"
    "eval, model, search), a key such as train.patience (or patience), a value of one (adamw), a column of an\n"
    "export (test_loss), base_conv, or one of study,\n"
    "memories, grid, zip, skip, seeds, record, store, weights, loss, intervals, best, threshold,\n"
    "comparable, published-csv; in any case, with - or _. Shows equations and source, d_dot and state size, and every option\n"
    "with its type, default and range; of a figure its axes, statistic, options and columns.\n\n"
    "Examples:\n"
    "  crosstalk describe delta\n"
    "  crosstalk describe recall\n"
    "  crosstalk describe train\n"
    "  crosstalk describe memory.nu --json\n",
    1,
    4,
    "needs a name, for example: crosstalk describe delta",
    {{"json", "", "Print JSON (an array if the name means several things)"}},
    run_describe,
};

}  // namespace crosstalk::program
