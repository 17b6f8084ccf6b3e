// crosstalk new: a commented study to start from.
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <filesystem>

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
namespace {

// {0}: the file, {1}: the study's name, {2}: the task's part.
constexpr const char* kHead =
    R"toml(# A study. 'crosstalk plan {0}' lists its runs and estimates their time, 'crosstalk run {0}' trains the missing
# ones; 'crosstalk describe study' explains the parts, 'crosstalk describe NAME' any task, memory or key.

[study]
name  = "{1}"                      # of the store: runs/{1}
{2})toml";

constexpr const char* kAssociations = R"toml(title = "@title@"
seeds = { range = [1, 3] }           # six or more for confidence intervals

[base]                               # one run; what is left out takes its default
@task@
model.d_key         = 16
train.learning_rate = 3e-3
train.max_steps     = 4000
train.stop_loss     = 1e-3           # training ends; solved: up to twice this
eval.every          = 100

[memories.linear]                    # the label; crosstalk list memories
name  = "linear_attention"
title = 'Linear attention'           # in figures and tables; formulas between $

[memories.delta]
name  = "delta"
title = 'Delta rule, $\beta \in (0, 1)$'
feature_map = "elu1"

[[grid]]                             # all memories, numbers of associations, seeds
"task.associations" = [8, 16, 24, 32]

# [[grid.zip]]                       # keys that advance together
# "model.d_key"         = [16, 32]
# "train.learning_rate" = [3e-3, 1e-3]

# [[grid.skip]]                      # combinations to leave out
# memory = "linear"
# "task.associations" = 32
)toml";

constexpr const char* kSwap = R"toml(title = "Values that change places"
seeds = { range = [1, 3] }           # six or more for confidence intervals

[base]                               # one run; what is left out takes its default
task.name           = "swap"
task.associations   = 4
task.operations     = 8
task.query_at       = "every"        # one key asked after every operation
model.d_key         = 16
memory.feature_map  = "identity"     # keys must be able to point both ways
memory.key_norm     = "l2"           # unit keys: beta alone decides what a write does
train.learning_rate = 2e-3
train.max_steps     = 5000
train.stop_loss     = 1e-4           # small: an error grows with every further swap
eval.every          = 200
eval.length_factors = "1 2 4"        # also read at twice and four times the length

[memories.overwrite]                 # the label; crosstalk list memories
name  = "delta"
title = 'Delta rule, $\beta \in (0, 1)$'   # in figures and tables; formulas between $

[memories.reflect]
name  = "delta"
title = 'Delta rule, $\beta \in (0, 2)$'
beta_max = 2

# [[grid]]                           # every combination of its lists
# "task.associations" = [3, 4, 5]
)toml";

// Of single tokens: a language model around each memory, two minutes on a laptop.
constexpr const char* kTokens = R"toml(title = "@title@"
seeds = { range = [1, 3] }           # six or more for confidence intervals

[base]                               # one run; what is left out takes its default
@task@
model.name          = "language"     # pre-norm blocks around the memory; crosstalk describe language
model.layer         = "bare"         # or "published": each memory in the layer of its authors
model.width         = 32
model.layers        = @layers@
@model@
model.weight_deviation = 0.1         # of weights at the start; 0.02, as in large models, learns late at this width
train.optimizer     = "adamw"
train.learning_rate = 3e-3
train.batch         = @batch@
train.max_steps     = @steps@
train.stop_loss     = 0              # training ends by accuracy
train.stop_accuracy = @stop@
train.patience      = 1000           # evaluations without gain; so many: no early stop
eval.every          = 100
eval.sequences      = 128

@memories@

@grid@
)toml";

// With --memory rule, in the place of the other memories.
constexpr const char* kRule = R"toml([memories.mine]                      # the label
name  = "rule"
title = 'A law of mine'              # in figures and tables; formulas between $
law = [                              # a step a line; crosstalk check FILE.toml says what they come to
  "beta = c sigmoid(token)",         # a number that the token decides; its weights are learned, and called beta
  "S += beta (v - S k) k^T",         # the state, V x K from 0: what key k holds gives way to the value v
  "read S q",                        # what a query gets
]
key_norm = "l2"                      # keys have length 1: beta = 1 replaces a value
c = 1                                # a number that the law names; a grid may sweep "memory.c"

[memories.gated]
name  = "gated_delta"
title = 'Gated DeltaNet'

)toml";

struct Template {
  const char *task, *text;
  std::vector<std::pair<const char*, const char*>> parts;
};

const std::vector<Template>& templates() {
  static const std::vector<Template> all = {
      {"recall",
       kAssociations,
       {{"@title@", "Capacity of two memories"},
        {"@task@", R"(task.name           = "recall"       # crosstalk list tasks
task.associations   = 16
task.queries        = 4              # asked in each training sequence)"}}},
      {"reassign",
       kAssociations,
       {{"@title@", "Updates by two memories"},
        {"@task@",
         R"(task.name           = "reassign"     # keys are written again and again; the last value is right
task.associations   = 16
task.queries        = 4              # asked in each training sequence)"}}},
      {"swap", kSwap, {}},
      {"mqar",
       kTokens,
       {{"@title@", "MQAR by memory"},
        {"@task@", R"(task.name           = "mqar"         # crosstalk list tasks
task.vocabulary     = 64)"},
        {"@layers@", "2"},
        {"@model@",
         R"(model.stack         = "base_conv memory"   # a short convolution brings a pair's two tokens together
model.mlp           = "identity")"},
        {"@batch@", "32"},
        {"@steps@", "1500"},
        {"@stop@", "0.99"},
        {"@memories@", R"([memories.attention]                 # the label; crosstalk list memories
name  = "softmax"
title = 'Attention'                  # in figures and tables; formulas between $

[memories.linear]
name  = "linear_attention"
title = 'Linear attention'
feature_map = "elu1"

[memories.deltanet]
name  = "deltanet"
title = 'DeltaNet')"},
        {"@grid@", R"([[grid]]                             # all memories, all seeds
[[grid.zip]]                         # and these keys, which advance together
"task.pairs"  = [4, 8, 16]
"task.length" = [16, 32, 64])"}}},
      {"words",
       kTokens,
       {{"@title@", "Parity by memory"},
        {"@task@", R"(task.name           = "words"        # crosstalk list tasks
task.group          = "Z2"           # S3, A5, ...: crosstalk describe words
task.curriculum     = "4 8 16"       # lengths, one after the other
task.start          = true)"},
        {"@layers@", "1"},
        {"@model@", R"(model.heads         = 4
model.mlp           = "gelu"
eval.length_factors = "1 2 4"        # also read at twice and four times the length)"},
        {"@batch@", "64"},
        {"@steps@", "1500"},
        {"@stop@", "0.995"},
        {"@memories@", R"([memories.overwrite]                 # the label; crosstalk list memories
name  = "deltanet"
title = 'DeltaNet, $\beta \in (0, 1)$'   # in figures and tables; formulas between $

[memories.reflect]
name  = "deltanet"
title = 'DeltaNet, $\beta \in (0, 2)$'
beta_max = 2)"},
        {"@grid@", R"(# [[grid]]                           # every combination of its lists
# "task.group" = ["Z2", "S3"])"}}},
      {"induction",
       kTokens,
       {{"@title@", "Induction by memory and short convolution"},
        {"@task@", R"(task.name           = "induction"    # crosstalk list tasks
task.length         = 32
task.vocabulary     = 16)"},
        {"@layers@", "2"},
        {"@model@", R"(model.mlp           = "none")"},
        {"@batch@", "64"},
        {"@steps@", "2000"},
        {"@stop@", "0.99"},
        {"@memories@", R"([memories.rope]                      # the label; crosstalk list memories
name  = "rope"
title = 'Attention, rotary positions'   # in figures and tables; formulas between $

[memories.deltanet]
name  = "deltanet"
title = 'DeltaNet')"},
        {"@grid@", R"([[grid]]                             # every combination, all memories, all seeds
"model.short_conv" = ["none", "k"])"}}}};
  return all;
}

/// Whether a memory divides what it reads, where nothing is said.
bool divides(const std::string& memory) {
  for (const Part& part : memory_named(memory).parts)
    for (const OptionSpec& spec : part.options)
      if (spec.name == "read_norm" && spec.default_value == OptionValue(std::string("attention")))
        return true;
  return false;
}

std::string text_of(const Template& chosen, const std::string& memory) {
  std::string text = chosen.text;
  for (const auto& [mark, part] : chosen.parts) text.replace(text.find(mark), std::string(mark).size(), part);
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
  text = text.substr(0, first) + kRule + text.substr(end);
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
  for (const Template& one : templates()) {
    if (one.task == task) return one;
    names.emplace_back(one.task);
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

int run_new(const Arguments& arguments, Console& console) {
  const std::filesystem::path path = arguments.positional.at(0);
  if (path.extension() != ".toml")
    throw UsageError(fmt::format("new: '{}' is no name of a study, which ends in .toml; name it {}",
                                 path.string(), suggested(path)));
  const std::string task = arguments.get("task", "recall");
  const std::string text =
      fmt::format(kHead, path.string(), name_of(path), text_of(template_of(task), memory_of(arguments)));
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

}  // namespace

extern const Command new_command = {
    "new",
    "write a commented study to start from",
    "STUDY.toml [--task TASK] [--memory NAME]",
    "Writes a small study with a comment on every part; never over an existing file. --task says of\n"
    "what: recall (the default), reassign, swap, or of single tokens, with a language model around\n"
    "each memory, mqar, words, induction. Each takes a laptop at most about two minutes. --memory NAME\n"
    "adds a memory ('crosstalk list memories'); --memory rule has, in place of the others, one whose update\n"
    "law stands in the study, from the delta rule (docs/rules.md).\n\n"
    "Examples:\n"
    "  crosstalk new mine.toml\n"
    "  crosstalk new tokens.toml --task mqar\n"
    "  crosstalk new gla.toml --task swap --memory gla\n"
    "  crosstalk new law.toml --memory rule\n",
    1,
    1,
    "needs the name of a file, for example: crosstalk new mine.toml",
    {{"task", "TASK", "Task of the study (default recall)"},
     {"memory", "NAME", "Memory to add; rule: one with a law of your own instead of the others"}},
    run_new,
};

}  // namespace crosstalk::program
