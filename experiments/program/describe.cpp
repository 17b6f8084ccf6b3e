// crosstalk describe: everything the registries know of one name.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/topics.h"
#include "experiments/study/schema.h"
#include "experiments/training/training.h"
#include "kernels/base/error.h"
#include "kernels/base/names.h"
#include "kernels/base/options.h"
#include "models/apply_model.h"
#include "models/memory.h"
#include "models/model.h"
#include "plots/figure.h"
#include "tasks/task.h"

namespace crosstalk::program {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWidth = 96;
/// Sizes at which a memory's state is shown.
constexpr int kKeys = 100, kValues = 100;
constexpr std::int64_t kLength = 100;

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
  return all;
}

const char* type_of(const OptionSpec& spec) {
  static constexpr const char* names[] = {"boolean", "integer", "number", "string"};
  return names[spec.default_value.index()];
}

bool is_number(const OptionSpec& spec) {
  return std::holds_alternative<std::int64_t>(spec.default_value) ||
         std::holds_alternative<double>(spec.default_value);
}

std::string range_of(const OptionSpec& spec) {
  if (!is_number(spec)) return "";
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  const char* at_least = spec.min_exclusive ? ">" : ">=";
  if (low && high) return fmt::format(", {} {:.15g} and <= {:.15g}", at_least, spec.min, spec.max);
  if (low) return fmt::format(", {} {:.15g}", at_least, spec.min);
  return high ? fmt::format(", <= {:.15g}", spec.max) : "";
}

Json option_json(const std::string& prefix, const OptionSpec& spec) {
  Json json = {{"key", prefix + "." + spec.name},
               {"type", type_of(spec)},
               {"default", to_json(spec.default_value)},
               {"help", spec.help},
               {"min", nullptr},
               {"max", nullptr}};
  if (is_number(spec) && std::isfinite(spec.min)) json["min"] = spec.min;
  if (is_number(spec) && std::isfinite(spec.max)) json["max"] = spec.max;
  if (is_number(spec) && spec.min_exclusive) json["min_exclusive"] = true;
  if (!spec.choices.empty()) json["choices"] = spec.choices;
  return json;
}

Json options_json(const std::string& prefix, const std::vector<OptionSpec>& options) {
  Json json = Json::array();
  for (const OptionSpec& spec : options) json.push_back(option_json(prefix, spec));
  return json;
}

std::string option_text(const std::string& prefix, const OptionSpec& spec) {
  std::string text = fmt::format("  {}.{} = {}  ({}{})\n", prefix, spec.name, to_text(spec.default_value),
                                 type_of(spec), range_of(spec));
  text += wrap(spec.help, kWidth, "      ");
  if (!spec.choices.empty()) text += wrap("One of: " + join(spec.choices, ", "), kWidth, "      ");
  return text;
}

std::string options_text(const std::string& prefix, const std::vector<OptionSpec>& options) {
  if (options.empty()) return "\nNo options.\n";
  std::string text = "\nOptions, with their defaults:\n";
  for (const OptionSpec& spec : options) text += option_text(prefix, spec);
  return text;
}

/// d_dot and state size of a memory with all options at their defaults; absent if the defaults do not
/// resolve.
struct Sizes {
  std::int64_t d_key = 0, d_dot = 0, state = 0;
};
std::optional<Sizes> default_sizes(const Memory& kind) {
  Options options;
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  options.set("memory.name", kind.name);
  resolve_model(options, {kKeys, kValues});
  try {
    kind.resolve(options);
    return Sizes{options.get_int("model.d_key"), kind.d_dot(options),
                 kind.state_size(options, kValues, kLength)};
  } catch (const OptionError&) {
    return std::nullopt;
  }
}

struct ParameterInfo {
  std::string name, init;
  std::vector<int> dims;
};
/// A study that says nothing but the memory's name; none where the memory needs more.
std::optional<Options> default_options(const Memory& kind) {
  Options options;
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", kind.options);
  options.set("memory.name", kind.name);
  try {
    resolve_model(options, {kKeys, kValues});
    kind.resolve(options);
    return options;
  } catch (const OptionError&) {
    return std::nullopt;
  }
}

std::vector<ParameterInfo> parameters_of(const Options& options) {
  const auto model = make_model<float>(options, {kKeys, kValues}, Device::cpu, 1);
  model->graph(2, {3, 2, 2}, true);  // what fits a single token may not fit more
  std::vector<ParameterInfo> all;
  const auto& block = model->parameters();
  for (int i = 0; i < block.count(); ++i) {
    const Tensor<float> t = block.value(i);
    all.push_back({block.name(i), block.init(i).text(), {t.dims, t.dims + t.rank}});
  }
  return all;
}

struct Description {
  std::string text;
  Json json;
};

Description describe(const TaskKind& kind) {
  return {fmt::format("{} (task): {}\n\n{}{}", kind.name, kind.summary, wrap(kind.description, kWidth),
                      options_text("task", kind.options)),
          {{"kind", "task"},
           {"name", kind.name},
           {"summary", kind.summary},
           {"description", kind.description},
           {"options", options_json("task", kind.options)}}};
}

Description describe(const Memory& kind) {
  Description described = {
      fmt::format("{} (memory): {}\n\n{}", kind.name, kind.summary, wrap(kind.description(), kWidth)),
      {{"kind", "memory"},
       {"name", kind.name},
       {"summary", kind.summary},
       {"description", kind.description()}}};
  if (const auto sizes = default_sizes(kind)) {
    const std::string d_dot =
        sizes->d_dot == 0 ? "none (no feature map bounds it)" : fmt::format("{}", sizes->d_dot);
    described.text += fmt::format(
        "\nWith the defaults and d_key = {}: d_dot {}; state size {} floats\n(with {} values, after {} "
        "tokens).\n",
        sizes->d_key, d_dot, sizes->state, kValues, kLength);
    described.json["defaults"] = {{"model.d_key", sizes->d_key},
                                  {"values", kValues},
                                  {"length", kLength},
                                  {"d_dot", sizes->d_dot},
                                  {"state_size", sizes->state}};
  }
  described.text += options_text("memory", kind.options);
  described.json["options"] = options_json("memory", kind.options);
  described.text += fmt::format("\n{}", wrap(kind.published_text(), kWidth));
  Json layer = nullptr;
  if (kind.published) {
    layer = {{"source", kind.published.source},
             {"set", Json::object()},
             {"expand_k", kind.published.expand_k},
             {"expand_v", kind.published.expand_v},
             {"parameters", kind.published.parameters},
             {"lacks", kind.published.lacks},
             {"eps_times", std::array{"none", "keys", "values"}[static_cast<int>(kind.published.eps_times)]}};
    for (const auto& [key, value] : kind.published.set) layer["set"][key] = to_json(value);
  }
  described.json["published"] = layer;
  described.text += "\nInputs (crosstalk apply):";
  Json inputs = Json::array();
  for (const ApplyInput& input : apply_inputs(kind, {})) {
    described.text += fmt::format(" {} {}{};", input.name, input.shape, input.optional ? " (optional)" : "");
    inputs.push_back({{"name", input.name}, {"shape", input.shape}, {"optional", input.optional}});
    for (const MemoryInput& one : kind.inputs)
      if (one.name == input.name && !one.symbol.empty()) inputs.back()["symbol"] = one.symbol;
  }
  described.text.back() = '\n';
  described.json["inputs"] = inputs;
  described.json["states"] = kind.states;
  described.json["does"] = kind.does;
  described.json["family"] = title_of(kind.family);
  described.json["equation"] = kind.equation;
  described.json["laws"] = kind.laws;
  described.json["bounded_by_rank"] = kind.bounded_by_rank;
  described.json["order_free"] = kind.order_free;
  described.json["source"] = kind.source;
  const std::optional<Options> options = default_options(kind);
  if (options) {
    described.text += fmt::format(
        "\nParameters in the retrieval model ({} keys, {} values), and how they start:\n", kKeys, kValues);
    for (const auto& parameter : parameters_of(*options)) {
      described.text +=
          fmt::format("  {:<28} [{}]  {}\n", parameter.name, fmt::join(parameter.dims, ","), parameter.init);
      described.json["parameters"].push_back(
          {{"name", parameter.name}, {"shape", parameter.dims}, {"init", parameter.init}});
    }
  }
  std::vector<double> lives;  // none where nothing fades
  if (options) lives = half_lives_at_start(*options, {kKeys, kValues});
  if (!lives.empty()) {
    const auto quantile = [&](double share) {
      return lives[static_cast<std::size_t>(share * static_cast<double>(lives.size() - 1))];
    };
    described.text += fmt::format(
        "What it holds decays at the start with a half-life of {:.3g} tokens (median; 90 of 100 numbers\n"
        "between {:.3g} and {:.3g}).\n",
        quantile(0.5), quantile(0.05), quantile(0.95));
    described.json["half_life_at_start"] = {
        {"median", quantile(0.5)}, {"low", quantile(0.05)}, {"high", quantile(0.95)}};
  }
  const std::vector<std::string> forms = apply_forms(kind);
  described.json["forms"] = forms;
  described.text += fmt::format("Forms: {} (crosstalk describe forms)\n", join(forms, ", "));
  return described;
}

Description describe(const FeatureMapInfo& info) {
  return {fmt::format("{} (feature map)\n\n  phi(k)  {}\n  d_dot   {}\n  source  {}\n\nA study takes it with "
                      "feature_map = \"{}\" in a memory's table.\n",
                      info.name, info.formula, info.d_dot, info.source, info.name),
          {{"kind", "feature-map"},
           {"name", info.name},
           {"formula", info.formula},
           {"d_dot", info.d_dot},
           {"source", info.source}}};
}

Description describe(const FigureKind& kind) {
  const auto part = [](const char* name, const std::string& text) {
    std::string lines = wrap(text, kWidth - 13, "             ");
    lines.replace(0, 13, fmt::format("  {:<11}", name));
    return lines;
  };
  std::string text = fmt::format("{} (figure): {}\n\n", kind.name, kind.summary);
  text += part("x axis", kind.x) + part("y axis", kind.y) + part("shown", kind.statistic);
  if (!kind.threshold.empty()) text += part("solved", kind.threshold);
  std::vector<std::string> options = kind.options;
  for (const char* option : {"--where", "--by", "--best", "--metric", "--facet", "--threshold", "--seeds",
                             "--log", "--width", "--venue", "--title", "--footnote", "--out"})
    if (std::string(option) != "--threshold" || !kind.threshold.empty()) options.emplace_back(option);
  text += part("options", join(options, ", ") + " ('crosstalk plot --help')");
  text += part("columns",
               join(kind.columns, ", ") +
                   "; then a column for each key of --by and --facet, and with --best the chosen value "
                   "(selected). Rows whose label begins with theory:, published:, fit: or prefix-exact: are "
                   "drawn behind.");
  text += fmt::format("\nDraw it with: crosstalk plot {} STORE\n", kind.name);
  return {text,
          {{"kind", "figure"},
           {"name", kind.name},
           {"summary", kind.summary},
           {"x", kind.x},
           {"y", kind.y},
           {"statistic", kind.statistic},
           {"threshold", kind.threshold},
           {"options", options},
           {"columns", kind.columns}}};
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
          {fmt::format("{}: {}\n\n{}", topic.name, topic.summary, wrap(topic.text, kWidth)),
           {{"kind", "topic"}, {"name", topic.name}, {"summary", topic.summary}, {"text", topic.text}}});
  for (const Topic& column : columns())
    if (same_name(column.name, name) || (column.name == "provenance" && name.starts_with("provenance.")))
      found.push_back({fmt::format("{} (column of an export): {}\n", column.name, column.summary),
                       {{"kind", "column"}, {"name", column.name}, {"summary", column.summary}}});
  if (same_name(name, "columns") || same_name(name, "column")) {
    std::string text = "Columns of an export beside the keys of the configuration:\n\n";
    nlohmann::ordered_json names = nlohmann::ordered_json::array();
    for (const Topic& column : columns()) {
      text += wrap(fmt::format("{}: {}", column.name, column.summary), kWidth);
      names.push_back({{"name", column.name}, {"summary", column.summary}});
    }
    found.push_back({text, {{"kind", "columns"}, {"columns", names}}});
  }
  for (const Section& section : sections()) {
    const std::string of =
        section.owner.empty() ? "" : fmt::format(" of {} {}", section.prefix, section.owner);
    if (section.owner.empty() && same_name(section.prefix, name))
      found.push_back({fmt::format("[{}] (section of a study's base){}", section.prefix,
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
      auto at = std::find_if(all.begin(), all.end(), [&](const Alike& one) { return one.text == text; });
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
                   kWidth, "      ");
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
        return std::any_of(spec.choices.begin(), spec.choices.end(),
                           [&](const std::string& choice) { return same_name(choice, name); });
      },
      fmt::format("{} is a value of ", name));
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const TaskKind& kind : task_kinds()) names.push_back(kind.name);
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
    return "the package is 'import crosstalk' (docs/python.md), and a PyTorch model is a memory of a study "
           "there. Without it, 'crosstalk export STORE' writes for pandas, 'crosstalk sample TASK --out DIR' "
           "and 'crosstalk apply' for numpy; 'crosstalk describe published-csv' says how your own results "
           "come in";
  if (name == "mad" || name == "mad-lab")
    return "the tasks of MAD are mad_recall (in-context, noisy and fuzzy recall), selective_copy, "
           "memorise and compression, all in "
           "experiments/mad.toml; its own arrays are read by task tokens (docs/own_data.md)";
  return "";
}

[[noreturn]] void unknown(const std::string& name) {
  if (name == "task" || name == "memory")
    throw UsageError(
        fmt::format("describe: the keys of [{0}] depend on which {0} it is; 'crosstalk list {1}' lists them, "
                    "'crosstalk describe NAME' shows the keys of one",
                    name, name == "task" ? "tasks" : "memories"));
  std::string small = name;
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const std::string answer = answer_to(small); !answer.empty())
    throw UsageError(fmt::format("describe: nothing is called '{}'; {}", name, answer));
  const std::vector<std::string> names = known_names();
  const std::string last = name.substr(name.find('.') == std::string::npos ? 0 : name.find('.') + 1);
  if (const std::string ours = synonym_of(last, names); !ours.empty())
    throw UsageError(fmt::format("describe: nothing is called '{}'; did you mean '{}'?", name, ours));
  // A key under another table; a table alone would look near to all its short keys.
  for (const std::string& known : names)
    if (last != name && known.ends_with("." + last))
      throw UsageError(fmt::format("describe: nothing is called '{}'; did you mean '{}'?", name, known));
  const std::string near = nearest_name(name, names);
  throw UsageError(fmt::format(
      "describe: nothing is called '{}'{}", name,
      near.empty() ? "; 'crosstalk list tasks|memories|feature-maps|figures' lists names, 'crosstalk "
                     "reference' all keys"
                   : fmt::format("; did you mean '{}'?", near)));
}

/// The memory that papers call `name`; "" for any other word.
std::string memory_of_papers(const std::string& name) {
  std::vector<std::string> memories;
  for (const Memory& kind : all_memories()) memories.push_back(kind.name);
  return synonym_of(name, memories);
}

std::vector<Description> find_all(const std::string& name) {
  const std::vector<Description> found = find(name);
  return found.empty() ? find_loosely(name) : found;
}

int run_describe(const Arguments& arguments, Console& console) {
  const std::string name = fmt::format("{}", fmt::join(arguments.positional, " "));  // Gated DeltaNet
  const std::vector<Description> found = find_all(fmt::format("{}", fmt::join(arguments.positional, "_")));
  if (found.empty()) unknown(name);
  if (arguments.has("json")) {
    Json json = Json::array();
    for (const Description& description : found) json.push_back(description.json);
    console.out << dump(found.size() == 1 ? json[0] : json);
    return exit_done;
  }
  // Mamba is a value of an option, but who asks means the memory.
  if (const std::string memory = memory_of_papers(name); found[0].json["kind"] == "option" && !memory.empty())
    console.out << fmt::format("The memory is {}: 'crosstalk describe {}'.\n\n", memory, memory);
  for (std::size_t i = 0; i < found.size(); ++i) console.out << (i > 0 ? "\n" : "") << found[i].text;
  return exit_done;
}

}  // namespace

bool is_described(const std::string& name) { return !find_all(name).empty(); }

extern const Command describe_command;
const Command describe_command = {
    "describe",
    "explain a task, memory, feature map, figure, option, column or part of a study",
    "NAME [--json]",
    "NAME is a task, memory, feature map or figure ('crosstalk list' lists them), a section (train,\n"
    "eval, model), a key such as train.patience (or patience), a value of one (adamw), a column of an\n"
    "export (test_loss), base_conv, or one of study,\n"
    "memories, grid, zip, skip, seeds, record, store, weights, loss, intervals, best, threshold,\n"
    "published-csv; in any case, with - or _. Shows equations and source, d_dot and state size, and every "
    "option\n"
    "with its type, default and range; of a figure its axes, statistic, options and columns.\n\n"
    "Examples:\n"
    "  crosstalk describe delta\n"
    "  crosstalk describe recall\n"
    "  crosstalk describe train\n"
    "  crosstalk describe memory.nu --json\n",
    1,
    4,
    "needs a name, for example: crosstalk describe delta",
    {{"json", "", "Print JSON (an array if the name means several things)", false, {}}},
    run_describe,
};

}  // namespace crosstalk::program
