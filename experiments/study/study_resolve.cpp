// One combination of a study, resolved.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "experiments/study/study_expand.h"
#include "kernels/base/error.h"
#include "kernels/base/text/no_effect.h"

namespace crosstalk {
namespace {

/// Sets what `settings` say about the options of `prefix`, and of the others what `otherwise` says, or the default.
void fill(const std::map<std::string, Setting>& settings, const std::string& prefix,
          const std::vector<OptionSpec>& specs, Options& options,
          const std::map<std::string, OptionValue>& otherwise = {}) {
  for (const OptionSpec& spec : specs) {
    const std::string key = prefix + "." + spec.name;
    const auto it = settings.find(key);
    if (it != settings.end()) {
      options.set(key, option_value(spec, key, it->second));
    } else {
      const auto other = otherwise.find(key);
      options.set(key, other == otherwise.end() ? spec.default_value : other->second);
    }
  }
}

bool says(const std::map<std::string, Setting>& settings, const char* key, const char* word) {
  const auto setting = settings.find(key);
  const auto* text = setting == settings.end() ? nullptr : std::get_if<std::string>(&setting->second.value);
  return text && *text == word;
}

/// N of train.keep_weights = "every N"; 0 of true and false.
std::int64_t every_of(const std::string& text) {
  if (text == "true" || text == "false") return 0;
  const std::string begin = "every ";
  std::int64_t steps = 0;
  const char* const end = text.data() + text.size();
  if (!text.starts_with(begin) ||
      std::from_chars(text.data() + std::min(begin.size(), text.size()), end, steps).ptr != end || steps <= 0)
    throw OptionError(
        "train.keep_weights",
        fmt::format("train.keep_weights is true, false or \"every N\" (steps), not \"{}\"", text));
  return steps;
}

/// Of the options of training, what decides no result stays out of the configuration.
void fill_train(const Schema& schema, const std::map<std::string, Setting>& settings, Run& run) {
  Options train;
  fill(settings, "train", schema.train, train);
  for (const auto& [key, value] : train.values()) {
    if (key == "train.keep_weights") {
      run.keep_every = every_of(std::get<std::string>(value));
      run.keep_weights = run.keep_every > 0 || std::get<std::string>(value) == "true";
    } else {
      run.config.set(key, value);
    }
  }
}

}  // namespace

Run resolve_model_of(const Schema& schema, const std::map<std::string, Setting>& settings,
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
  const bool published = says(settings, "model.layer", "published"),
             equal = says(settings, "model.parts", "equal");
  if (published && equal)
    throw OptionError(
        "model.parts",
        "model.parts = \"equal\" sets maps and norms alike, and model.layer = \"published\" as each memory's authors do; leave one of them out");
  if (equal && kind.equal.empty())
    throw NoEffect(
        "model.parts",
        fmt::format("with memory {}, which has neither feature_map nor key_norm nor read_norm", kind.name),
        "take a memory that has one of them");
  const std::map<std::string, OptionValue> nothing, &authors = published ? kind.published
                                                               : equal   ? kind.equal
                                                                         : nothing;
  fill(settings, "model", schema.model, options, authors);
  if (published && kind.publish) {
    std::vector<std::string> said;
    for (const auto& [key, setting] : settings) said.push_back(key);
    kind.publish(options, said);
  }
  if (schema.resolve_model) schema.resolve_model(options, sizes.vocabulary);
  options.set("memory.name", kind.name);
  fill(settings, "memory", kind.options, options, authors);
  if (kind.resolve) kind.resolve(options);
  if (kind.d_dot) run.d_dot = kind.d_dot(options);
  if (kind.state_size) run.state_size = kind.state_size(options, sizes.vocabulary.values, sizes.eval_length);
  return run;
}

void resolve_training_of(const Schema& schema, const std::map<std::string, Setting>& settings, Run& run) {
  fill_train(schema, settings, run);
  fill(settings, "eval", schema.eval, run.config);
  if (schema.resolve_training) schema.resolve_training(run.config);
}

}  // namespace crosstalk
