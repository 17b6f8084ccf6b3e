// What a study may say: the registered tasks, memories and option lists, gathered in one object, so that the
// reader of studies depends on a list and not on every task and memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/batch.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

struct Study;
struct StudyOptions;

/// Sizes that a task with resolved options tells the model.
struct TaskSizes {
  Vocabulary vocabulary;
  std::int64_t eval_length = 0;  ///< positions of an evaluation sequence
};

/// A task as the reader of studies sees it (TaskKind without its batches).
struct SchemaTask {
  std::string name;
  std::vector<OptionSpec> options;                 ///< under "task.", without "name"
  std::function<void(Options&)> resolve;           ///< may be empty
  std::function<TaskSizes(const Options&)> sizes;  ///< of resolved options
};

/// What is wrong with a law given as text, and where: step and column count from 1.
struct LawRefusal {
  int step = 1, column = 1;
  std::string message;
};

/// A memory as the reader of studies sees it (Memory without what builds it).
struct SchemaMemory {
  std::string name;
  std::vector<OptionSpec> options;                         ///< under "memory.", without "name"
  std::function<void(Options&)> resolve;                   ///< may be empty
  std::function<std::int64_t(const Options&)> d_dot = {};  ///< of resolved options; may be empty
  /// Of resolved options, values and length of an evaluation sequence; may be empty.
  std::function<std::int64_t(const Options&, std::int64_t, std::int64_t)> state_size = {};
  /// What model.layer = "published" sets where a study says nothing, by whole names; and what it makes of options once they
  /// are filled in, with the keys that the study says. May be empty.
  std::map<std::string, OptionValue> published = {};
  std::function<void(Options&, const std::vector<std::string>&)> publish = {};
  std::map<std::string, OptionValue> equal =
      {};  ///< what model.parts = "equal" sets where a study says nothing
  /// Of a memory whose option `law` is a list of steps; one string has all steps. Empty for others.
  std::function<std::optional<LawRefusal>(const std::vector<std::string>&)> refused_law = {};
  bool only_by_name = false;  ///< not one of "every memory": it needs more than its name
  bool no_layer = false;      ///< has no layer of its authors: bare where every_memory adds it
};

struct Schema {
  std::vector<SchemaTask> tasks;
  std::vector<SchemaMemory> memories;
  std::vector<OptionSpec> model, train, eval;
  std::function<void(Options&, const Vocabulary&)> resolve_model;  ///< may be empty
  std::function<void(Options&)> resolve_training;                  ///< may be empty

  const SchemaTask* find_task(const std::string& name) const;
  const SchemaMemory* find_memory(const std::string& name) const;
  std::vector<std::string> task_names() const;
  std::vector<std::string> memory_names() const;

  /// Every key that [base], a grid or --set may name: "task.name", "train.batch", "data_seed", ...
  std::vector<std::string> keys() const;
  /// Whether keys() has it.
  bool knows(const std::string& key) const;
  /// "unknown key task.asociations; did you mean task.associations?"
  std::string unknown_key(const std::string& key) const;
};

/// The registries of the program.
const Schema& default_schema();

/// The option behind a dotted key for a given task and memory; nullptr if they have no such option
/// ("task.name", "memory.name" and the seeds have none either).
const OptionSpec* find_option(const Schema& schema, const std::string& task, const std::string& memory,
                              const std::string& key);

/// The same as in study.h and run_id.cpp, with any schema.
Study parse_study(const Schema& schema, const std::string& text, const std::string& path,
                  const StudyOptions& options);
/// The file, verbatim. Throws ConfigError if it cannot be read, which says what a file of this kind is.
std::string read_study_text(const std::filesystem::path& path, const char* kind = "study",
                            const char* example = "experiments/quickstart.toml");
std::string run_id(const Schema& schema, const Options& config);
/// The text that run_id hashes: a line "KEY=VALUE" each.
std::string canonical_text(const Schema& schema, const Options& config);
/// run_id() of the configuration with this text.
std::string id_of_text(const std::string& text);
/// Makes it the text of the same configuration with another `seed`, `data_seed` or `init_seed`.
void replace_seed(std::string& text, const std::string& key, std::int64_t seed);

/// "a, b or c"
std::string join_names(const std::vector<std::string>& names);

}  // namespace crosstalk
