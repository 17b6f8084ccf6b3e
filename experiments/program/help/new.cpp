// crosstalk new: a commented study to start from.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <map>
#include <sstream>

#include "experiments/common/command.h"
#include "experiments/common/exit_codes.h"
#include "experiments/common/text.h"
#include "experiments/study/study.h"
#include "kernels/base/text/names.h"
#include "kernels/base/text/options.h"
#include "models/memory.h"
#include "results/store/files.h"
#include "results/store/store.h"
#include "tasks/task.h"

namespace crosstalk::program {

extern const char* const kStudiesText;  ///< studies.txt, which the build makes a source of

namespace {

/// Of studies.txt: "= NAME: TEXT", or "= NAME" and lines.
const std::map<std::string, std::string>& pieces() {
  static const std::map<std::string, std::string> all = [] {
    std::map<std::string, std::string> read;
    std::string* piece = nullptr;
    std::istringstream lines(kStudiesText);
    for (std::string line; std::getline(lines, line);)
      if (const std::size_t colon = line.find(": "); !line.starts_with("= ")) {
        *piece += (piece->empty() ? "" : "\n") + line;
      } else {
        piece = &read[line.substr(2, colon - 2)];
        if (colon != line.npos) *piece = line.substr(colon + 2);
      }
    return read;
  }();
  return all;
}

struct Template {
  std::string task, piece;
};

const Template kTemplates[] = {{"recall", "associations"}, {"reassign", "associations"},
                               {"swap", "swap"},           {"mqar", "tokens"},
                               {"words", "tokens"},        {"induction", "tokens"}};

/// Whether a memory divides what it reads, where nothing is said.
bool divides(const std::string& memory) {
  for (const Part& part : memory_named(memory).parts)
    for (const OptionSpec& spec : part.options)
      if (spec.name == "read_norm" && spec.default_value == OptionValue(std::string("attention")))
        return true;
  return false;
}

std::string text_of(const Template& chosen, const std::string& memory) {
  std::string text = pieces().at(chosen.piece) + "\n";
  for (const auto& [name, piece] : pieces())
    if (name.starts_with(chosen.task + "."))
      text = filled(text, {{fmt::format("@{}@", name.substr(chosen.task.size() + 1)), piece}});
  if (memory.empty()) return text;
  const std::size_t first = text.find("[memories."), grid = text.find("[[grid]]", first);
  const std::size_t end = text.rfind('\n', grid) + 1;
  if (memory != "rule") {
    if (text.find(fmt::format("name  = \"{}\"", memory)) != std::string::npos) return text;  // it is there
    // Identity's features have both signs, and no sum to divide by.
    const bool undivided =
        divides(memory) && text.find("memory.feature_map  = \"identity\"") != std::string::npos;
    return text.insert(end, fmt::format("[memories.{0}]\nname  = \"{0}\"\n{1}\n", memory,
                                        undivided ? "read_norm = \"none\"\n" : ""));
  }
  text = text.substr(0, first) + pieces().at("rule") + "\n" + text.substr(end);
  const std::string skipped = "# memory = \"linear\"";
  if (const std::size_t at = text.find(skipped); at != std::string::npos)
    text.replace(at, skipped.size(), "# memory = \"gated\"");
  return text;
}

/// --memory. Throws UsageError for one that nobody knows.
std::string memory_of(const Arguments& arguments) {
  const std::string memory = arguments.get("memory");
  if (memory.empty() || find_memory(memory)) return memory;
  const std::string near = nearest_name(memory, names_of(all_memories()));
  throw UsageError(fmt::format(
      "new: --memory {}: {}", memory,
      near.empty() ? "'crosstalk list memories' has no such name" : fmt::format("did you mean {}?", near)));
}

/// Throws UsageError for a task without one.
const Template& template_of(const std::string& task) {
  std::vector<std::string> names;
  for (const Template& one : kTemplates) {
    if (one.task == task) return one;
    names.push_back(one.task);
  }
  if (const TaskKind* kind = find_task(task); kind != nullptr && !kind->drawn)
    throw UsageError(fmt::format(
        "new: --task {0}: there is no study to start from, for its sequences stand in a folder of yours; start "
        "from another task (crosstalk new own.toml --task mqar), and write task.name = \"{0}\" and task.folder = "
        "\"FOLDER\" in place of its keys of task ('crosstalk describe {0}' says which arrays)",
        task));
  if (find_task(task) != nullptr)
    throw UsageError(fmt::format(
        "new: --task {0}: there is no study of it to start from, but of {1}; start from one of these, and write task.name = \"{0}\" "
        "('crosstalk describe {0}' lists its keys, 'crosstalk list studies' the studies that come with the program)",
        task, join(names, ", ", " and ")));
  const std::string near = nearest_name(task, names);
  throw UsageError(fmt::format("new: --task {}: there are studies of {}{}", task, join(names, ", ", " and "),
                               near.empty() ? "" : fmt::format("; did you mean {}?", near)));
}

/// What to draw of it.
std::string drawn(const std::string& task, const std::string& name) {
  if (task == "mqar")
    return fmt::format(
        "crosstalk plot accuracy runs/{0}, crosstalk table final runs/{0} --metric test_accuracy", name);
  if (task == "words") return fmt::format("crosstalk plot length runs/{} --metric scaled_accuracy", name);
  if (task == "induction")
    return fmt::format("crosstalk table final runs/{} --metric test_accuracy --by model.short_conv", name);
  return fmt::format("crosstalk plot {} runs/{}",
                     task == "swap"       ? "tracking"
                     : task == "reassign" ? "updates"
                                          : "capacity",
                     name);
}

/// A name for the study from that of the file.
std::string name_of(const std::filesystem::path& path) {
  std::string name;
  for (const char c : path.stem().string())
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ? c : '_';
  return name.empty() || name[0] == '-' || name[0] == '_' ? "study" + name : name;
}

/// The name of a study's file that somebody may have meant: my.toml for my, my.tml and my/.
std::string suggested(std::filesystem::path path) {
  if (!path.has_filename()) path = path.parent_path();
  const std::string extension = path.extension().string();
  if (!nearest_name(extension, {".toml"}).empty()) path.replace_extension();
  return path.empty() ? "mine.toml" : path.string() + ".toml";
}

}  // namespace

int run_new(const Arguments& arguments, Console& console) {
  const std::filesystem::path path = arguments.positional.at(0);
  if (path.extension() != ".toml")
    throw UsageError(fmt::format("new: '{}' is no name of a study, which ends in .toml; name it {}",
                                 path.string(), suggested(path)));
  const std::string task = arguments.get("task", "recall");
  const std::string text = fmt::format(fmt::runtime(pieces().at("head")), path.string(), name_of(path),
                                       text_of(template_of(task), memory_of(arguments)));
  parse_study(text, path.string());  // what it writes is right
  File file = open_file(FileSystem::real(), path, O_WRONLY | O_CREAT | O_EXCL);
  if (!file.is_open()) {
    const int error = errno;
    const std::string what = fmt::format(
        "new: {} cannot be made: {}", path.string(),
        error == EEXIST ? "it exists, and is not written over; give another name, or edit what is there"
                        : reason_of(error));
    if (error == ENOSPC || error == EDQUOT || error == EIO) throw StoreError(what);
    throw UsageError(what);
  }
  if (const int error = write_all(FileSystem::real(), file, text); error != 0) {
    ::unlink(path.c_str());
    throw StoreError(fmt::format("new: {} cannot be written: {}", path.string(), reason_of(error)));
  }
  file.close();
  console.out << path.string() << "\n";
  print_note(console, fmt::format("next: edit it, then crosstalk plan {0}, crosstalk run {0}; {1}",
                                  path.string(), drawn(task, name_of(path))));
  return exit_done;
}

}  // namespace crosstalk::program
