// From the command line to a command, and from exceptions to messages and exit codes.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <system_error>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/program/help/topics.h"
#include "experiments/study/study.h"
#include "kernels/base/error.h"
#include "kernels/base/text/file_stamps.h"
#include "kernels/base/text/names.h"
#include "models/build.h"
#include "results/printable.h"
#include "results/store/store.h"

namespace crosstalk::program {
namespace {

[[noreturn]] void unknown_command(const std::string& name) {
  const std::vector<std::string> names = names_of(commands());
  if (name.ends_with(".toml"))
    throw UsageError(
        fmt::format("'{0}' is no command; to train this study: crosstalk run {0}", shell_quote(name)));
  if (const std::string ours = synonym_of(name, names); !ours.empty())
    throw UsageError(fmt::format("unknown command '{}'; did you mean '{}'?", name, ours));
  if (is_described(name))
    throw UsageError(fmt::format("'{0}' is no command; 'crosstalk describe {0}' explains it", name));
  throw UsageError(fmt::format("unknown command '{}'; {}", name, suggestion(name, names, "'")));
}

bool asks_for_help(const std::vector<std::string>& words) {
  const auto end = std::ranges::find(words, "--");
  return std::any_of(words.begin(), end, [](const std::string& w) { return w == "--help" || w == "-h"; });
}

int dispatch(Console& console) {
  std::vector<std::string> words = console.arguments;
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    console.out << program_help();
    return exit_done;
  }
  if (words[0] == "--version") words[0] = "version";
  const std::string name = words[0];
  if (name.rfind('-', 0) == 0)
    throw UsageError(fmt::format(
        "options stand after the command: crosstalk COMMAND {} ('crosstalk --help' lists commands)", name));
  const Command* command = find_command(name);
  if (command == nullptr) unknown_command(name);
  words.erase(words.begin());
  if (asks_for_help(words)) {
    console.out << command_help(*command);
    return exit_done;
  }
  const Arguments arguments = parse_arguments(*command, words);
  const std::string color = arguments.get("color", "auto");
  if (color != "auto") console.color = color == "always";
  return command->run(arguments, console);
}

}  // namespace

int run_program(Console& console) {
  try {
    return dispatch(console);
  } catch (const ConfigError& error) {
    // Its message begins with path:line:col, which editors and people look for at the start of a line.
    print_plain(console, error.what());
    return exit_usage;
  } catch (const UsageError& error) {
    print_error(console, error.what());
    return exit_usage;
  } catch (const StorePathError& error) {
    print_error(console, printable_line(error.what()));
    return exit_usage;
  } catch (const FilesChanged& error) {
    print_error(console, printable_line(error.what()));
    return exit_some_failed;
  } catch (const OptionError& error) {
    print_error(console, fmt::format("{}: {}", error.key, error.what()));
    return exit_usage;
  } catch (const MemoryError& error) {
    print_error(console,
                fmt::format("{} ('Add a memory' in CONTRIBUTING.md says how one is written and checked)",
                            error.what()));
    return exit_usage;
  } catch (const StoreError& error) {  // names of somebody's store stand in it
    print_error(console, printable_line(error.what()));
    return exit_store;
  } catch (const DeviceError& error) {
    print_error(console, error.what());
    return exit_device;
  } catch (const ShapeError& error) {
    print_error(console, error.what());
    return exit_device;
  } catch (const std::bad_alloc&) {
    print_error(console, "out of memory; a smaller --pack needs less");
    return exit_device;
  } catch (const std::filesystem::filesystem_error& error) {
    print_error(console, fmt::format("{}: {}", error.path1().string(), error.code().message()));
    return exit_store;
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) {
      print_error(console, error.what());
      return exit_store;
    }
    print_error(console,
                fmt::format("a thread could not be started: {}; use fewer --threads, or raise the limits on "
                            "processes and memory (ulimit -u, ulimit -v)",
                            error.code().message()));
    return exit_device;
  } catch (const std::exception& error) {
    // A sentence: records that do not suit what was asked for. The library's own is one word, such as "stod".
    const bool said = dynamic_cast<const std::invalid_argument*>(&error) != nullptr &&
                      std::string_view(error.what()).find(' ') != std::string_view::npos;
    print_error(console,
                (said ? std::string() : std::string("internal error, please report it: ")) + error.what());
    return said ? exit_usage : exit_internal;
  }
}

}  // namespace crosstalk::program
