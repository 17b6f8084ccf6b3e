// Which runs share a pack, and how long one takes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "experiments/training/pack.h"
#include "experiments/training/run_state.h"
#include "models/memory.h"

namespace crosstalk {

std::unique_ptr<Task> registered_task(const Options& config) {
  return find_task(config.get_string("task.name"))->make(config);
}

std::string pack_key(const Options& config) {
  static const std::vector<std::string> free = {"seed",
                                                "data_seed",
                                                "init_seed",
                                                "train.patience",
                                                "train.stop_loss",
                                                "train.stop_accuracy",
                                                "train.promote_accuracy",
                                                "train.learning_rate",
                                                "train.weight_decay"};
  std::string key;
  for (const auto& [name, value] : config.values()) {
    if (std::find(free.begin(), free.end(), name) == free.end()) key += name + "=" + to_text(value) + "\n";
  }
  return key;
}

double estimated_cost(const Run& run) {
  const auto task = registered_task(run.config);
  const SequenceShape shape = task->shape(Split::train);
  const double keys = task->vocabulary().keys, values = task->vocabulary().values;
  const double d = static_cast<double>(run.config.get_int("model.d_key"));
  const double p = std::max<double>(d, static_cast<double>(run.d_dot));
  const double batch = static_cast<double>(run.config.get_int("train.batch"));
  const double state = find_memory(run.config.get_string("memory.name"))->forms_state ? values : 1;
  const double tables = 6 * keys * static_cast<double>(run.config.get_int("model.embedding")) * d;
  const double steps = std::min<double>(5000, static_cast<double>(run.config.get_int("train.max_steps")));
  return (tables + 20 * batch * shape.T * p * state * shape.Q) * steps;
}

StatePlace place_of_state(const std::string& state) {
  if (state.empty()) return {};
  const RunState saved = run_state(state);
  return {saved.steps, static_cast<int>(saved.promotions.size())};
}

}  // namespace crosstalk
