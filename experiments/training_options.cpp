// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <sstream>

#include "experiments/training.h"
#include "experiments/training/length_factors.h"
#include "experiments/training/weights.h"
#include "kernels/base/error.h"
#include "tasks/task.h"

namespace crosstalk {

const std::vector<OptionSpec>& train_options() {
  static const std::vector<OptionSpec> options = {
      {"learning_rate", 1e-3, "Adam's step size", 0, 10, {}, true},
      {"batch", std::int64_t{32}, "sequences a training step", 1, 1 << 16},
      {"max_steps", std::int64_t{100000}, "steps at most", 0, 1e9},
      {"stop_loss", 1e-3, "stop when the evaluation loss is at most this (0: never)", 0, 1e9},
      {"patience", std::int64_t{10},
       "stop after more than this many evaluations in a row without a new best loss", 0, 1e9},
      {"precision",
       std::string("fp32"),
       "arithmetic of parameters and activations; tf32, bf16: fp32, but factors in the products of linear "
       "maps "
       "rounded to 11 or 8 bits",
       0,
       0,
       {"fp32", "fp64", "tf32", "bf16"}},
      {"keep_weights", false,
       "keep the final weights of every run that is done, as STORE/weights/RUN.npz: numpy.load gives the "
       "parameters that 'crosstalk describe MEMORY' lists. No part of a run's identity; where it is switched "
       "on later, 'run' trains those runs again whose weights are not kept, to the same records"},
      {"init_from", std::string(),
       "start from kept weights: STORE:RUN (the beginning of an id is enough), STORE that keeps those of one "
       "run, or a .npz file; names and shapes must be the model's"},
      {"init_digest", std::string(),
       "hash of the weights that init_from names, derived from them: it, not the path, is part of a run's "
       "identity"},
  };
  return options;
}

const std::vector<OptionSpec>& eval_options() {
  static const std::vector<OptionSpec> options = {
      {"every", std::int64_t{100}, "steps between evaluations", 1, 1e9},
      {"protocol",
       std::string("uniform"),
       "uniform: a fixed set of sequences, all queries of each, mean over queries; schlag2021: as the "
       "released code, 20 fresh "
       "sequences, at most 200 queries each, mean of the means of chunks of train.batch queries",
       0,
       0,
       {"uniform", "schlag2021"}},
      {"sequences", std::int64_t{64}, "evaluation sequences (schlag2021: always 20)", 1, 1 << 20},
      {"length_factors", std::string(),
       "lengths, as multiples of the training length, at which the trained memory is read once at the end, "
       "such as \"1 2 4 8\""},
  };
  return options;
}

std::vector<int> length_factors(const std::string& text) {
  std::vector<int> factors;
  std::istringstream stream(text);
  std::string word;
  while (stream >> word) {
    int factor = 0;
    const bool digits = word.find_first_not_of("0123456789") == std::string::npos && word.size() <= 4;
    if (digits) factor = std::stoi(word);
    if (factor < 1 || (!factors.empty() && factor <= factors.back())) {
      throw OptionError(
          "eval.length_factors",
          fmt::format(
              "eval.length_factors = \"{}\": \"{}\" does not fit; want growing whole numbers of at least 1 "
              "separated by spaces, such as \"1 2 4 8\"",
              text, word));
    }
    factors.push_back(factor);
  }
  return factors;
}

namespace {

// What a probe, which learns nothing, cannot be asked for.
void check_probe(const Options& options) {
  if (!options.has("model.name") || options.get_string("model.name") != "probe") return;
  if (const std::int64_t steps = options.get_int("train.max_steps"); steps > 0)
    throw OptionError(
        "train.max_steps",
        fmt::format("train.max_steps = {}, but model.name = \"probe\" learns nothing; give 0", steps));
  const std::string& task = options.get_string("task.name");
  if (find_task(task)->make(options)->vocabulary().second_key)
    throw OptionError("task.name",
                      fmt::format("task.name = \"{}\" has tokens that write no value, which a probe "
                                  "cannot show; use recall or reassign",
                                  task));
}

}  // namespace

void resolve_training(Options& options) {
  resolve_init_from(options);
  check_probe(options);
  if (options.get_string("eval.protocol") == "schlag2021") options.set("eval.sequences", std::int64_t{20});
  const std::vector<int> factors = length_factors(options.get_string("eval.length_factors"));
  const TaskKind& kind = *find_task(options.get_string("task.name"));
  if (factors.empty() && kind.drawn) return;
  const auto task = kind.make(options);
  const std::int64_t wanted = options.get_int("eval.sequences");
  for (const auto& [split, name] : {std::pair{Split::eval, "eval"}, {Split::test, "test"}}) {
    const std::int64_t there = task->sequences(split);
    if (there > 0 && there < wanted)
      throw OptionError("eval.sequences",
                        fmt::format("eval.sequences = {}, but the {} split has {} sequences; give at most {}",
                                    wanted, name, there, there));
  }
  for (const int factor : factors) task->lengthened(factor);  // throws where there is no longer form
}

}  // namespace crosstalk
