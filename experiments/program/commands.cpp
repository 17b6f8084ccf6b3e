// The table of commands: what help/commands.txt says of them, and which function does each.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <sstream>

#include "experiments/common/command.h"
#include "experiments/common/text.h"
#include "experiments/inspect/inspect.h"
#include "models/engines.h"
#include "plots/figure.h"
#include "results/csv.h"

namespace crosstalk::program {

extern const char* const kCommandsText;  ///< help/commands.txt, which the build makes a source of

CommandRun run_apply, run_atlas, run_bench, run_check, run_compact, run_compare, run_completion, run_describe,
    run_doctor, run_export, run_help, run_import, run_inspect, run_list, run_man, run_new, run_pilot,
    run_plan, run_plot, run_reference, run_report, run_retry, run_run, run_sample, run_search, run_status,
    run_submit, run_table, run_verify, run_version, run_work;

namespace {

const std::map<std::string, CommandRun*> kRuns = {
    {"apply", run_apply},       {"atlas", run_atlas},     {"bench", run_bench},
    {"check", run_check},       {"compact", run_compact}, {"compare", run_compare},
    {"describe", run_describe}, {"doctor", run_doctor},   {"completion", run_completion},
    {"export", run_export},     {"help", run_help},       {"import", run_import},
    {"inspect", run_inspect},   {"list", run_list},       {"man", run_man},
    {"new", run_new},           {"pilot", run_pilot},     {"plan", run_plan},
    {"plot", run_plot},         {"report", run_report},   {"reference", run_reference},
    {"retry", run_retry},       {"run", run_run},         {"sample", run_sample},
    {"search", run_search},     {"status", run_status},   {"submit", run_submit},
    {"table", run_table},       {"verify", run_verify},   {"version", run_version},
    {"work", run_work}};

/// "--name,n* VALUE: help {choice|choice}": the letter, * of one that may be repeated, value (a flag has none), help (people are
/// not shown one without) and choices may be missing.
CommandOption option_of(const std::string& line) {
  const std::size_t colon = std::min(line.find(": "), line.size()), space = std::min(line.find(' '), colon);
  CommandOption option{line.substr(2, space - 2), line.substr(space, colon - space), line.substr(colon)};
  option.repeated = option.name.ends_with('*');
  if (option.repeated) option.name.pop_back();
  option.value.erase(0, 1);
  option.help.erase(0, 2);
  if (const std::size_t brace = option.help.rfind(" {"); option.help.ends_with('}')) {
    option.choices = parts_of(option.help.substr(brace + 2, option.help.size() - brace - 3), '|');
    option.help.erase(brace);
  }
  return option;
}

/// "1", "1 to 4" or "2 or more" arguments.
void set_takes(Command& command, const std::string& text) {
  std::istringstream words(text);
  std::string word;
  words >> command.min_positional >> word >> command.max_positional;
  if (word != "to") command.max_positional = word.empty() ? command.min_positional : -1;
}

/// A line "% NAME" begins a group of options, "= NAME: SUMMARY" a command; then come its options, those of a group by "+NAME",
/// "+NAME option option" (these alone) or "+NAME -option" (all but it), and, behind an empty line, the text.
std::vector<Command> read_commands(const std::string& file) {
  std::map<std::string, std::vector<CommandOption>> groups;
  std::vector<Command> all;
  std::vector<CommandOption>* options = nullptr;
  bool in_text = false;
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("% ")) {
      options = &groups[line.substr(2)];
      in_text = false;
    } else if (line.starts_with("= ")) {
      Command& command = all.emplace_back();
      command.name = line.substr(2, colon - 2);
      command.summary = line.substr(colon + 2);
      command.run = kRuns.at(command.name);
      options = &command.options;
      in_text = false;
    } else if (in_text) {
      all.back().text += line + "\n";
    } else if (line.empty()) {
      in_text = !all.empty();
    } else if (line.starts_with("--")) {
      options->push_back(option_of(line));
    } else if (line.starts_with(" ")) {
      all.back().synopsis += "\n" + line;
    } else if (line.starts_with("+")) {
      const std::vector<std::string> words = parts_of(line.substr(1), ' ');
      const bool without = words.size() > 1 && words[1].starts_with('-');
      for (const CommandOption& option : groups.at(words[0])) {
        const std::string name = (without ? "-" : "") + option.name;
        if (words.size() == 1 || (std::ranges::find(words, name) != words.end()) != without)
          options->push_back(option);
      }
    } else {
      Command& command = all.back();
      const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
      if (key == "takes") set_takes(command, value);
      if (key == "usage") command.synopsis = value;
      if (key == "missing") command.missing = value;
      if (key == "beyond") command.beyond = value;
    }
  }
  for (Command& command : all)
    while (command.text.ends_with("\n\n")) command.text.pop_back();
  return all;
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all =
      read_commands(filled(kCommandsText, {{"%forms%", join(form_names(), "|")},
                                           {"%figures%", join(names_of(figure_kinds()), "|")},
                                           {"%inside%", inspect_reference()}}));
  return all;
}

const Command* find_command(const std::string& name) {
  for (const Command& command : commands())
    if (command.name == name) return &command;
  return nullptr;
}

}  // namespace crosstalk::program
