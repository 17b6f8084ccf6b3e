// crosstalk new: a commented study to start from.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "experiments/program/command.h"
#include "experiments/program/exit_codes.h"
#include "experiments/study.h"

namespace crosstalk::program {
namespace {

constexpr const char* kText =
    R"toml(# What to train. 'crosstalk plan {0}' shows what it comes to, 'crosstalk run {0}' trains what is
# missing; 'crosstalk describe study' explains the parts, 'crosstalk describe NAME' any task, memory or key.

[study]
name  = "{1}"                      # of the store: runs/{1}
title = "Capacity of two memories"
seeds = {{ range = [1, 3] }}         # six or more for confidence intervals

[base]                               # one run; what is left out takes its default
task.name           = "recall"       # crosstalk list tasks
task.associations   = 16
task.queries        = 4              # asked in each training sequence
model.d_key         = 16
train.learning_rate = 3e-3
train.max_steps     = 4000
train.stop_loss     = 1e-3           # solved: training ends
eval.every          = 100

[memories.linear]                    # the label; crosstalk list memories
name  = "linear_attention"
title = 'Linear attention'           # in figures and tables; formulas between $

[memories.delta]
name  = "delta"
title = 'Delta rule, $\beta \in (0, 1)$'
feature_map = "elu1"

[[grid]]                             # all memories, all loads, all seeds
"task.associations" = [8, 16, 24, 32]

# [[grid.zip]]                       # keys that advance together
# "model.d_key"         = [16, 32]
# "train.learning_rate" = [3e-3, 1e-3]

# [[grid.skip]]                      # combinations to leave out
# memory = "linear"
# "task.associations" = 32
)toml";

/// A name for the study from that of the file.
std::string name_of(const std::filesystem::path& path) {
  std::string name;
  for (const char c : path.stem().string())
    name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' ? c : '_';
  return name.empty() || name[0] == '-' || name[0] == '_' ? "study" + name : name;
}

int run_new(const Arguments& arguments, Console& console) {
  const std::filesystem::path path = arguments.positional.at(0);
  if (path.extension() != ".toml")
    throw UsageError(fmt::format("new: '{}' is no name of a study; it ends in .toml", path.string()));
  const std::string text = fmt::format(kText, path.string(), name_of(path));
  parse_study(text, path.string());  // what it writes is right
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0)
    throw UsageError(fmt::format("new: {} cannot be made: {}", path.string(),
                                 errno == EEXIST ? "it exists" : std::strerror(errno)));
  const bool whole = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  ::close(file);
  if (!whole) {
    ::unlink(path.c_str());
    throw UsageError(fmt::format("new: {} cannot be written: {}", path.string(), std::strerror(error)));
  }
  console.out << path.string() << "\n";
  print_note(console, fmt::format("next: edit it, then crosstalk plan {}", path.string()));
  return exit_done;
}

}  // namespace

extern const Command new_command;
const Command new_command = {
    "new",
    "write a commented study to start from",
    "STUDY.toml",
    "Writes a small study with a comment on every part; never over an existing file.\n\n"
    "Example:\n"
    "  crosstalk new mine.toml\n",
    1,
    1,
    "needs the name of a file, for example: crosstalk new mine.toml",
    {},
    run_new,
};

}  // namespace crosstalk::program
