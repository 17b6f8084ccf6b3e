// crosstalk help: explains the program or one command.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/help/topics.h"
#include "kernels/base/text/names.h"

namespace crosstalk::program {
namespace {

int run_help(const Arguments& arguments, Console& console) {
  if (arguments.positional.empty()) {
    console.out << program_help();
    return exit_done;
  }
  const std::string& name = arguments.positional[0];
  const Command* command = find_command(name);
  if (command == nullptr && is_described(name)) return find_command("describe")->run(arguments, console);
  if (command == nullptr) {
    const std::string near = nearest_name(name, names_of(commands()));
    throw UsageError(fmt::format(
        "help: there is no command '{0}'{1}", name,
        near.empty()
            ? fmt::format(
                  "; 'crosstalk help' lists commands, and 'crosstalk describe {}' looks for tasks, memories and keys",
                  shell_quote(name))
            : fmt::format("; did you mean '{}'?", near)));
  }
  console.out << command_help(*command);
  return exit_done;
}

}  // namespace

extern const Command help_command = {
    "help",
    "explain a command, with examples",
    "[COMMAND]",
    "What 'crosstalk describe' knows is explained here too.\n\n"
    "Example:\n"
    "  crosstalk help run\n",
    0,
    1,
    "",
    {},
    run_help,
};

}  // namespace crosstalk::program
