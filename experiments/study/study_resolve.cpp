// One combination of a study, resolved.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "experiments/study/study_expand.h"
#include "kernels/base/error.h"

namespace crosstalk {
namespace {

/// Sets what `settings` say about the options of `prefix`, and the default of the others.
void fill(const std::map<std::string, Setting>& settings, const std::string& prefix,
          const std::vector<OptionSpec>& specs, Options& options) {
  for (const OptionSpec& spec : specs) {
    const std::string key = prefix + "." + spec.name;
    const auto it = settings.find(key);
    options.set(key, it == settings.end() ? spec.default_value : option_value(spec, key, it->second));
  }
}

/// Of the options of training, what decides no result stays out of the configuration.
void fill_train(const Schema& schema, const std::map<std::string, Setting>& settings, Run& run) {
  Options train;
  fill(settings, "train", schema.train, train);
  for (const auto& [key, value] : train.values()) {
    if (key == "train.keep_weights") {
      run.keep_weights = std::get<bool>(value);
    } else {
      run.config.set(key, value);
    }
  }
}

}  // namespace

Run resolve_run(const Schema& schema, const std::map<std::string, Setting>& settings,
                const std::string& memory) {
  const auto name = settings.find("task.name");
  if (name == settings.end()) {
    throw OptionError("task.name", fmt::format("no task to train on; add task.name = {} to [base]",
                                               join_names(schema.task_names())));
  }
  const SchemaTask& task = *schema.find_task(std::get<std::string>(name->second.value));
  const SchemaMemory& kind = *schema.find_memory(memory);

  Run run;
  Options& options = run.config;
  options.set("task.name", task.name);
  fill(settings, "task", task.options, options);
  if (task.resolve) task.resolve(options);
  const TaskSizes sizes = task.sizes(options);
  fill(settings, "model", schema.model, options);
  if (schema.resolve_model) schema.resolve_model(options, sizes.vocabulary);
  options.set("memory.name", kind.name);
  fill(settings, "memory", kind.options, options);
  if (kind.resolve) kind.resolve(options);
  fill_train(schema, settings, run);
  fill(settings, "eval", schema.eval, options);
  if (schema.resolve_training) schema.resolve_training(options);
  if (kind.d_dot) run.d_dot = kind.d_dot(options);
  if (kind.state_size) run.state_size = kind.state_size(options, sizes.vocabulary.values, sizes.eval_length);
  return run;
}

}  // namespace crosstalk
