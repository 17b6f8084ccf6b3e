// Which runs share a pack, and how long one takes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "experiments/training/foreign_memory.h"
#include "experiments/training/length_factors.h"
#include "experiments/training/pack.h"
#include "experiments/training/race.h"
#include "experiments/training/state/run_state.h"
#include "kernels/base/text/digest.h"
#include "kernels/base/text/narrow.h"
#include "models/memory.h"
#include "models/mixers/probe_model.h"
#include "models/rules/rule_memory.h"
#include "results/store/claims.h"

namespace crosstalk {
namespace {

/// In operations: a step of the smallest models of a pack takes about 10 us of a GPU (H200), in which those of large ones
/// do so many.
constexpr double kLeastOfAStep = 1e8;

std::string text_without(const Options& config, const std::vector<std::string>& keys) {
  std::string text;
  for (const auto& [name, value] : config.values())
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) text += name + "=" + to_text(value) + "\n";
  return text;
}

}  // namespace

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
                                                "train.muon_rate",
                                                "train.weight_decay"};
  return text_without(config, free);
}

std::string race_of(const Options& config) {
  if (!config.has("train.race") || !config.get_bool("train.race")) return "";
  const std::string text = text_without(config, {kRates.begin(), kRates.end()});
  return std::string(kRacePrefix) + digest_text(XXH3_128bits(text.data(), text.size()));
}

double language_weights(const Options& config) {
  const auto number = [&](const char* key) { return static_cast<double>(config.get_int(key)); };
  const double D = number("model.width");
  const std::string& mlp = config.get_string("model.mlp");
  const double products = mlp == "none" ? 0 : mlp == "swiglu" ? 3 : 2;
  const double mixer = D * (2 * number("model.d_key") + 2 * number("model.d_value"));
  return number("model.layers") * (mixer + products * config.get_double("model.mlp_ratio") * D * D);
}

double language_flops(const Options& config, const SequenceShape& shape, const Vocabulary& vocabulary) {
  const auto number = [&](const char* key) { return static_cast<double>(config.get_int(key)); };
  const double D = number("model.width"), T = shape.T;
  const double token = language_weights(config) + number("model.layers") * T * D;
  return 6 * number("train.batch") * (T * token + shape.Q * D * vocabulary.values);
}

double work_of_step(const Run& run) {
  const auto task = registered_task(run.config);
  const bool probe = is_probe(run.config);
  const SequenceShape shape = task->shape(probe ? Split::eval : Split::train);
  if (run.config.get_string("model.name") == "language")
    return language_flops(run.config, shape, task->vocabulary());
  const double keys = task->vocabulary().keys, values = task->vocabulary().values;
  const double d = static_cast<double>(run.config.get_int("model.d_key"));
  const double p = std::max<double>(d, static_cast<double>(run.d_dot));
  const double batch = static_cast<double>(run.config.get_int(probe ? "eval.sequences" : "train.batch"));
  const double state = !is_foreign(run.config) && memory_of(run.config).forms_state ? values : 1;
  if (probe && state > 1)
    return 40 * batch * shape.T * p * d;  // its values have d numbers, and the state is formed once
  const double tables = 6 * keys * static_cast<double>(run.config.get_int("model.embedding")) * d;
  return tables + 20 * batch * shape.T * p * state * shape.Q;
}

double work_of_lengths(const Run& run) {
  const Options& config = run.config;
  if (config.get_string("model.name") != "language" || is_foreign(config)) return 0;
  const auto task = registered_task(config);
  const int trained = task->shape(Split::train).T;
  const int piece = narrow<int>(config, "eval.piece");
  double work = 0;
  for (const int factor : length_factors(config.get_string("eval.length_factors"))) {
    SequenceShape shape = task->lengthened(factor)->shape(Split::test);
    const double T = shape.T;
    if (!memory_of(config).keeps_keys) shape.T = std::min(shape.T, piece > 0 ? piece : trained);
    work += language_flops(config, shape, task->vocabulary()) * T / shape.T;
  }
  constexpr double with_gradients = 3;  // how much longer a step of training takes
  return work / with_gradients * static_cast<double>(config.get_int("eval.sequences")) /
         static_cast<double>(config.get_int("train.batch"));
}

bool may_stop(const Options& config) {
  const std::int64_t every = config.get_int("eval.every");
  return (every > 0 && config.get_int("train.patience") < config.get_int("train.max_steps") / every) ||
         config.get_double("train.stop_loss") > 0 || config.get_double("train.stop_accuracy") > 0;
}

double expected_steps(const Options& config) {
  constexpr double kTypical = 5000;
  const auto most = static_cast<double>(config.get_int("train.max_steps"));
  return is_probe(config) ? 1 : may_stop(config) ? std::min(kTypical, most) : most;
}

double estimated_work(const Run& run) { return work_of_step(run) * expected_steps(run.config); }

double estimated_cost(const Run& run, Device device) {
  const double least = device == Device::cuda ? kLeastOfAStep : 0;
  return estimated_work(run) + least * expected_steps(run.config);
}

StatePlace place_of_state(const std::string& state) {
  if (state.empty()) return {};
  const RunState saved = run_state(state);
  return {saved.steps, static_cast<int>(saved.promotions.size())};
}

}  // namespace crosstalk
