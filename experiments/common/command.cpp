// Parsing of command lines with Boost.Program_options, and the help that goes with it.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/common/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cmath>

#include "experiments/common/text.h"
#include "experiments/study/schema.h"
#include "kernels/base/text/names.h"
#include "results/csv.h"

namespace crosstalk::program {
namespace {

namespace po = boost::program_options;

/// Options that every command has.
const std::vector<CommandOption>& common_options() {
  static const std::vector<CommandOption> options = {
      {"color", "WHEN", "Colour on stderr: auto, always or never", false, {"auto", "always", "never"}},
      {"help,h", "", "Show this help"},
  };
  return options;
}

std::string long_name(const CommandOption& option) { return option.name.substr(0, option.name.find(',')); }

std::vector<CommandOption> all_options(const Command& command) {
  return joined({command.options, common_options()});
}

po::options_description describe_options(const Command& command) {
  po::options_description description;
  for (const CommandOption& option : all_options(command)) {
    if (option.value.empty()) {
      description.add_options()(option.name.c_str(), option.help.c_str());
    } else if (option.repeated) {
      description.add_options()(option.name.c_str(),
                                po::value<std::vector<std::string>>()->composing()->value_name(option.value),
                                option.help.c_str());
    } else {
      description.add_options()(option.name.c_str(), po::value<std::string>()->value_name(option.value),
                                option.help.c_str());
    }
  }
  return description;
}

[[noreturn]] void usage_error(const Command& command, const std::string& message) {
  throw UsageError(
      fmt::format("{0}: {1} ('crosstalk {0} --help' shows how it is used)", command.name, message));
}

/// The option that is nearest to what was given; "" for none.
std::string nearest_option(const std::vector<CommandOption>& options, const std::string& bare) {
  std::vector<std::string> names;
  for (const CommandOption& option : options)
    if (!option.help.empty()) names.push_back(long_name(option));
  return nearest_name(bare, names);
}

/// What options of other programs are called here; "" for anything else.
std::string said_here(const Command& command, const std::string& bare) {
  const auto is = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, bare) != names.end();
  };
  const auto has = [&](const std::string& option) {
    return std::ranges::any_of(command.options,
                               [&](const CommandOption& one) { return long_name(one) == option; });
  };
  if (is({"seed", "seeds", "n-seeds", "num-seeds", "random-seed"})) {
    if (has("where") && !has("chosen-of")) return "to take some of the seeds: --where seed=1,2,3";
    if (has("set")) return "seeds belong to the study, and --set replaces them: --set seeds=1,2,3";
  }
  if (is({"gpu", "gpus", "cuda", "use-gpu", "gpu-id", "cpu", "no-cuda"}) && has("device"))
    return "the device is named by --device: --device cuda:0 (the first GPU) or --device cpu";
  if (is({"resume", "continue", "restart", "checkpoint", "resume-from"}) && has("time-limit"))
    return fmt::format(
        "nothing is needed to resume: 'crosstalk {}' trains what is missing in the store, and continues what was stopped",
        command.name);
  if (is({"force", "overwrite"}) && has("out")) {
    const auto out = std::ranges::find_if(command.options,
                                          [](const CommandOption& one) { return long_name(one) == "out"; });
    if (out->value == "STORE")
      return "results in a store are never overwritten; name another --out, or remove the old one first";
    return fmt::format("nothing is needed to write again: what 'crosstalk {}' wrote at --out is replaced{}",
                       command.name,
                       command.name == "plot" ? "; a script that was edited by hand is kept" : "");
  }
  if (is({"output", "out-dir", "output-dir", "save-dir", "log-dir", "dir"}) && has("out"))
    return fmt::format("did you mean --out? (crosstalk {} {})", command.name, command.synopsis);
  if (is({"config", "cfg", "study", "file"}) && command.synopsis.starts_with("STUDY"))
    return fmt::format("the study stands without an option: crosstalk {} {}", command.name, command.synopsis);
  if (is({"print", "test-only"}) && has("dry-run")) return "did you mean --dry-run?";
  if (is({"j", "jobs", "workers", "num-workers", "cores", "nproc"}) && has("threads"))
    return "did you mean --threads?";
  if (!has("set")) return "";
  const std::vector<std::string> keys = default_schema().keys();
  std::string key = synonym_of(bare, keys), end = bare;
  std::ranges::replace(end, '-', '_');
  for (const std::string& known : keys)
    if (known == end || (known.ends_with("." + end) && !known.ends_with(".name"))) key = known;
  if (key.empty()) return "";
  // An option that differs in its last letter alone is nearer than a key of the very name: --heads, --head.
  if (const std::string near = nearest_option(command.options, bare);
      near + "s" == bare || near == bare + "s")
    return fmt::format("did you mean --{}? (The study's {} is replaced by --set {}=VALUE)", near, key, key);
  return fmt::format("{0} is a key of the study, and --set replaces it: --set {0}=VALUE", key);
}

[[noreturn]] void unknown_option(const Command& command, const std::string& given) {
  const std::string bare = given.substr(std::min(given.find_first_not_of('-'), given.size()));
  if (const std::string here = said_here(command, bare); !here.empty())
    throw UsageError(fmt::format("{}: unknown option {}: {}", command.name, given, here));
  const std::string near = nearest_option(all_options(command), bare);
  std::string hint = near.empty() ? "" : fmt::format("; did you mean --{}?", near);
  if (near.empty() && !command.beyond.empty())
    hint = fmt::format("; options of {0} stand behind '--': ... -- {1}", command.beyond, given);
  usage_error(command, fmt::format("unknown option {}{}", given, hint));
}

void check_choice(const Command& command, const CommandOption& option, const std::string& spelt,
                  const std::string& value) {
  if (option.choices.empty()) return;
  for (const std::string& choice : option.choices)
    if (choice == value) return;
  const std::string near = nearest_name(value, option.choices);
  usage_error(command, fmt::format("{} is {}, not '{}'{}", spelt, join(option.choices, ", ", " or "), value,
                                   near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

}  // namespace

CommandOption choice_of(const std::string& name, const std::string& value, const std::string& help,
                        const std::vector<std::string>& choices) {
  return {name, value, help, false, choices};
}

std::vector<CommandOption> joined(const std::vector<std::vector<CommandOption>>& parts) {
  std::vector<CommandOption> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string Arguments::get(const std::string& name, const std::string& fallback) const {
  const auto found = options.find(name);
  return found == options.end() ? fallback : found->second.back();
}

std::vector<std::string> Arguments::all(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? std::vector<std::string>() : found->second;
}

std::string Arguments::spelt(const std::string& name) const {
  const auto found = written.find(name);
  return found == written.end() ? "--" + name : found->second;
}

std::int64_t Arguments::integer(const std::string& name, std::int64_t fallback, std::int64_t min,
                                std::int64_t max) const {
  if (!has(name)) return fallback;
  const std::string text = get(name);
  const auto value = number_in<std::int64_t>(text);
  if (!value || *value < min || *value > max) {
    const std::string range = max == std::numeric_limits<std::int64_t>::max()
                                  ? fmt::format("of at least {}", min)
                                  : fmt::format("from {} to {}", min, max);
    throw UsageError(fmt::format("{} needs a whole number {}, not '{}'", spelt(name), range, text));
  }
  return *value;
}

double Arguments::number(const std::string& name, double fallback, double min) const {
  if (!has(name)) return fallback;
  const std::string text = get(name);
  const auto value = number_in(text);
  if (!value || !std::isfinite(*value) || *value < min)
    throw UsageError(fmt::format("{} needs a number of at least {}, not '{}'", spelt(name), min, text));
  return *value;
}

Arguments parse_arguments(const Command& command, const std::vector<std::string>& words) {
  po::options_description description = describe_options(command);
  description.add_options()("positional arguments", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("positional arguments", -1);
  const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;

  Arguments arguments;
  po::variables_map values;
  try {
    const po::parsed_options parsed =
        po::command_line_parser(words).options(description).positional(positional).style(style).run();
    for (const auto& option : parsed.options)
      if (const auto& tokens = option.original_tokens;
          !tokens.empty() && tokens[0].size() > 1 && tokens[0][0] == '-' && tokens[0][1] != '-')
        arguments.written[option.string_key] = tokens[0].substr(0, 2);
    po::store(parsed, values);
  } catch (const po::unknown_option& error) {
    unknown_option(command, error.get_option_name());
  } catch (const po::error& error) {
    usage_error(command, error.what());
  }
  if (values.count("positional arguments"))
    arguments.positional = values["positional arguments"].as<std::vector<std::string>>();
  for (const CommandOption& option : all_options(command)) {
    const std::string name = long_name(option);
    if (!values.count(name)) continue;
    if (option.value.empty())
      arguments.options[name] = {""};
    else if (option.repeated)
      arguments.options[name] = values[name].as<std::vector<std::string>>();
    else
      arguments.options[name] = {values[name].as<std::string>()};
    for (const std::string& value : arguments.options[name])
      if (!option.value.empty()) check_choice(command, option, arguments.spelt(name), value);
  }
  const int count = static_cast<int>(arguments.positional.size());
  if (count < command.min_positional) usage_error(command, command.missing);
  if (command.max_positional >= 0 && count > command.max_positional)
    usage_error(command, fmt::format("unexpected argument '{}'",
                                     arguments.positional[static_cast<std::size_t>(command.max_positional)]));
  return arguments;
}

void check_name(const char* kind, const std::string& name, const std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end())
    throw UsageError(fmt::format("unknown {} '{}'; {}", kind, name, suggestion(name, names, "'")));
}

std::string program_help() {
  std::string text =
      "Crosstalk measures how much a sequence memory can hold: it trains many small\n"
      "associative-recall models side by side and turns them into capacity curves.\n\n"
      "Usage: crosstalk COMMAND [ARGUMENTS]\n\nCommands:\n";
  for (const Command* command : commands())
    text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  text +=
      "\nFrom a study file to a figure:\n"
      "  crosstalk plan experiments/quickstart.toml       what would be trained\n"
      "  crosstalk run experiments/quickstart.toml        train it; again: only what is missing\n"
      "  crosstalk plot capacity runs/quickstart          draw loss against associations\n"
      "  crosstalk export runs/quickstart > runs.csv      one row a run, for pandas or R\n"
      "\nTo be sure:\n"
      "  crosstalk doctor                                 what this machine and build lack, and remedies\n"
      "  crosstalk verify runs/quickstart                 trains a sample again and compares\n"
      "  crosstalk bench experiments/quickstart.toml      how fast it trains here\n"
      "\nTo look around:\n"
      "  crosstalk list memories                          what can be studied\n"
      "  crosstalk describe delta                         equations, options, state size\n"
      "  crosstalk sample recall -n 2                     what a model sees and must answer\n"
      "\n'crosstalk help COMMAND' explains one command, with examples. Results go to stdout,\n"
      "everything else to stderr. Exit codes: 0 done, 1 some runs failed, 2 usage or\n"
      "configuration (nothing was run), 3 store, 4 device, 75 stopped and resumable.\n";
  return text;
}

std::string command_help(const Command& command) {
  std::vector<std::vector<std::string>> rows;
  for (const CommandOption& option : all_options(command)) {
    if (option.help.empty()) continue;
    const auto comma = option.name.find(',');
    std::string shown =
        comma == std::string::npos ? "    --" : fmt::format("-{}, --", option.name.substr(comma + 1));
    shown += long_name(option);
    if (!option.value.empty()) shown += " " + option.value;
    rows.push_back({shown, option.help + (option.repeated ? " (repeatable)" : "")});
  }
  return fmt::format("crosstalk {}: {}\n\nUsage: crosstalk {} {}\n\n{}\nOptions:\n{}", command.name,
                     command.summary, command.name, command.synopsis, command.text,
                     two_columns(rows, 30, 96));
}

}  // namespace crosstalk::program
