// The registries of the program, as the reader of studies wants them. The only file of the reader that links
// against tasks, models and the trainer.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "experiments/study/schema.h"
#include "experiments/study/study.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/training.h"
#include "models/memory.h"
#include "models/mixers/language_options.h"
#include "models/rules/rule_memory.h"
#include "tasks/task.h"

namespace crosstalk {
namespace {

SchemaTask schema_task(const TaskKind& kind) {
  SchemaTask task;
  task.name = kind.name;
  task.options = kind.options;
  task.resolve = kind.resolve;
  task.sizes = [make = kind.make](const Options& options) {
    const std::unique_ptr<Task> made = make(options);
    return TaskSizes{made->vocabulary(), made->shape(Split::eval).T};
  };
  return task;
}

/// What model.parts = "equal" sets of a memory, by whole names: of feature_map, key_norm and read_norm what it has.
std::map<std::string, OptionValue> equal_parts(const Memory& memory) {
  std::map<std::string, OptionValue> equal;
  for (const auto& [part, value] :
       {std::pair{"feature_map", "identity"}, {"key_norm", "l2"}, {"read_norm", "none"}})
    for (const OptionSpec& option : memory.options)
      if (option.name == part &&
          std::find(option.choices.begin(), option.choices.end(), value) != option.choices.end())
        equal.emplace("memory." + option.name, std::string(value));
  return equal;
}

Schema registries() {
  Schema schema;
  for (const TaskKind& kind : task_kinds()) schema.tasks.push_back(schema_task(kind));
  for (const Memory& memory : all_memories()) {
    schema.memories.push_back({memory.name,
                               memory.options,
                               [&memory](Options& options) { memory.resolve(options); },
                               [&memory](const Options& options) { return memory.d_dot(options); },
                               [&memory](const Options& options, std::int64_t values, std::int64_t length) {
                                 return memory.state_size(options, values, length);
                               },
                               {memory.published.set.begin(), memory.published.set.end()},
                               [&memory](Options& options, const std::vector<std::string>& said) {
                                 publish(options, memory, said);
                               },
                               equal_parts(memory)});
    schema.memories.back().no_layer = !memory.published;
  }
  for (SchemaMemory& memory : schema.memories) {
    if (memory.name != "rule") continue;
    memory.refused_law = [](const std::vector<std::string>& steps) -> std::optional<LawRefusal> {
      const auto error = rules::refused_law(steps);
      if (!error) return {};
      return LawRefusal{error->step, error->column, error->what()};
    };
  }
  schema.memories.push_back({.name = kForeignMemory,
                             .options = foreign_options(),
                             .resolve = resolve_foreign,
                             .only_by_name = true});
  schema.model = model_options();
  schema.train = train_options();
  schema.eval = eval_options();
  schema.resolve_model = resolve_model;
  schema.resolve_training = resolve_training;
  return schema;
}

}  // namespace

const Schema& default_schema() {
  static const Schema schema = registries();
  return schema;
}

Study parse_study(const std::string& text, const std::string& path, const StudyOptions& options) {
  return parse_study(default_schema(), text, path, options);
}

Study read_study(const std::filesystem::path& path, const StudyOptions& options) {
  return parse_study(default_schema(), read_study_text(path), path.string(), options);
}

std::string run_id(const Options& config) { return run_id(default_schema(), config); }

}  // namespace crosstalk
