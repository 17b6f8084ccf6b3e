// A command of the program: what `crosstalk help`, the parser and the dispatcher need to know of it.
//
// To add a command: one file experiments/program/NAME.cpp that defines a Command, and one line in
// commands.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "experiments/common/console.h"

namespace crosstalk::program {

/// The command line is wrong (exit code 2).
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One option of a command.
struct CommandOption {
  std::string name;                       ///< "set"; "count,n" adds the letter -n
  std::string value;                      ///< what stands for the value in help ("KEY=VALUE"); empty = a flag
  std::string help;                       ///< one sentence, no full stop; empty = not for people, not shown
  bool repeated = false;                  ///< may be given several times
  std::vector<std::string> choices = {};  ///< the values it takes; empty = any
};

/// An option that takes one of a few values.
CommandOption choice_of(const std::string& name, const std::string& value, const std::string& help,
                        const std::vector<std::string>& choices);

/// Options that commands share, and a command's own, in this order.
std::vector<CommandOption> joined(const std::vector<std::vector<CommandOption>>& parts);

/// What the user gave to a command.
class Arguments {
 public:
  std::vector<std::string> positional;
  std::map<std::string, std::vector<std::string>> options;  ///< flags have one empty value
  std::map<std::string, std::string> written;               ///< "-n" of what was given by its letter

  bool has(const std::string& name) const { return options.count(name) != 0; }
  std::string get(const std::string& name, const std::string& fallback = "") const;
  std::vector<std::string> all(const std::string& name) const;
  /// As the user wrote it, for messages: "-n" or "--count".
  std::string spelt(const std::string& name) const;
  /// Throws UsageError for what is not a whole number in [min, max].
  std::int64_t integer(const std::string& name, std::int64_t fallback, std::int64_t min,
                       std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  /// Throws UsageError for what is not a finite number >= min.
  double number(const std::string& name, double fallback, double min) const;
};

struct Command {
  std::string name;
  std::string summary;                         ///< one line for the list of commands
  std::string synopsis;                        ///< "STUDY.toml [OPTIONS]"
  std::string text;                            ///< paragraphs and examples
  int min_positional = 0, max_positional = 0;  ///< max -1 = any number
  std::string missing;  ///< what to say if there are too few: "needs a study file, for example ..."
  std::vector<CommandOption> options;
  int (*run)(const Arguments& arguments, Console& console) = nullptr;
  std::string beyond = "";  ///< the program whose options stand behind "--"
};

/// All commands, in the order of `crosstalk --help`.
const std::vector<const Command*>& commands();
const Command* find_command(const std::string& name);

/// Parses what follows the command's name. Throws UsageError with the nearest option for an unknown one.
Arguments parse_arguments(const Command& command, const std::vector<std::string>& words);

/// Refuses a name that is none of `names`: "unknown KIND 'NAME'; did you mean ...". Throws UsageError.
void check_name(const char* kind, const std::string& name, const std::vector<std::string>& names);
/// Help of the program and of one command.
std::string program_help();
std::string command_help(const Command& command);

/// The whole program: dispatches, turns exceptions into messages and exit codes.
int run_program(Console& console);

}  // namespace crosstalk::program
