// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "experiments/training/epoch.h"
#include "experiments/training/foreign_memory.h"
#include "experiments/training/length_factors.h"
#include "experiments/training/optimizer.h"
#include "experiments/training/state/weights.h"
#include "experiments/training/training.h"
#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/base/text/no_effect.h"
#include "models/mixers/probe_model.h"
#include "models/model.h"
#include "tasks/given_files.h"
#include "tasks/lanes.h"
#include "tasks/task.h"

namespace crosstalk {

const std::vector<OptionSpec>& train_options() {
  static const std::vector<OptionSpec> options = {
      {"learning_rate", 1e-3, "Adam's step size", 0, 10, {}, true},
      {"optimizer",
       std::string("adam"),
       "adam; adamw: Adam, and every weight decays by learning_rate * weight_decay of itself a step; muon: Muon (Jordan et al. 2024) for the weights "
       "of linear maps, AdamW for all else (embedding, head, filters, gains, biases, numbers of a head)",
       0,
       0,
       {"adam", "adamw", "muon"}},
      {"muon_rate", 0.02,
       "Muon's learning rate, which goes by train.schedule too; train.learning_rate is AdamW's", 0, 10},
      {"muon_momentum", 0.95, "Muon's momentum (Nesterov's)", 0, 0.999999},
      {"muon_low_momentum", 0.85,
       "what Muon's momentum comes down to at the peak of one_cycle, as in PyTorch", 0, 0.999999},
      {"weight_decay", 0.0, "AdamW's and Muon's, of every parameter but train.no_decay", 0, 1e3},
      {"no_decay", std::string("none"),
       "parameters without weight decay: none; or words with commas: marked (as the source of a published layer marks its own: "
       "A_log, decay.bias, ...; 'crosstalk describe MEMORY' lists them), norms, biases, ends of names"},
      {"beta1", 0.9, "Adam's decay of the mean of gradients", 0, 0.999999},
      {"beta2", 0.999, "Adam's decay of the mean of their squares", 0, 0.999999},
      {"schedule",
       std::string("constant"),
       "of the learning rate: constant; cosine: down to 0 over max_steps, step by step; cosine_epoch: the same curve, but a new rate in each epoch "
       "only; linear: a line down to 0; wsd: constant, and a line down to 0 over the last train.decay_share; one_cycle: PyTorch's OneCycleLR, half a "
       "cosine up from 1/25 over the steps of the warm-up, another one down to 4e-6 of the rate (Adam's beta1 stays as it is)",
       0,
       0,
       {"constant", "cosine", "cosine_epoch", "linear", "wsd", "one_cycle"}},
      {"decay_share",
       0.1,
       "of wsd: the share of train.max_steps over which the rate declines, at the end",
       0,
       1,
       {},
       true},
      {"warmup_steps", std::int64_t{0}, "first steps, over which the learning rate rises in a line", 0, 1e9},
      {"warmup_share", 0.0,
       "the same as a share of train.max_steps, which it is resolved to (one_cycle: of its rise, 0.3 in PyTorch)",
       0, 1},
      {"least_rate", 0.0,
       "what cosine, cosine_epoch, linear and wsd come down to, as a share of train.learning_rate", 0, 1},
      {"clip_norm", 0.0, "gradients of a larger norm (over all parameters) are scaled down to it (0: never)",
       0, 1e9},
      {"batch", std::int64_t{32}, "sequences a training step", 1, 1 << 16},
      {"max_steps", std::int64_t{100000}, "steps at most", 0, 1e9},
      {"epochs", std::int64_t{0},
       "times that training goes through all training sequences, which decides max_steps (0: max_steps does); for tasks that have an end of them",
       0, 1e9},
      {"share",
       1.0,
       "of train.epochs, or else of train.max_steps and train.warmup_steps, which it is resolved to: 0.125 trains an eighth, to try "
       "rates ('crosstalk run --rates-short')",
       0,
       1,
       {},
       true},
      {"stop_loss", 1e-3, "stop when the evaluation loss is at most this (0: never)", 0, 1e9},
      {"stop_accuracy", 0.0, "stop when the evaluation accuracy is at least this (0: never)", 0, 1},
      {"patience", std::int64_t{10},
       "stop after more than this many evaluations in a row without a new best loss", 0, 1e9},
      {"race", false,
       "runs of one seed that differ in their rates and decay alone train side by side, and all end at the first evaluation at which one meets "
       "stop_loss or stop_accuracy: the others are outrun ('crosstalk describe race')"},
      {"promote_accuracy", 0.99,
       "a run leaves a stage of the task's curriculum when its evaluation accuracy there is at least this", 0,
       1},
      {"promote",
       std::string("accuracy"),
       "what ends a stage of the task's curriculum: accuracy: train.promote_accuracy, so that a run may never see the last stage; schedule: each "
       "stage has an equal share of train.max_steps, ended by the first evaluation after it, and train.patience counts in the last one only",
       0,
       0,
       {"accuracy", "schedule"}},
      {"precision",
       std::string("fp32"),
       "arithmetic of parameters and activations; tf32, bf16: fp32, but factors in the products of linear maps rounded to 11 or 8 bits",
       0,
       0,
       {"fp32", "fp64", "tf32", "bf16"}},
      {"keep_weights", std::string("false"),
       "true: keep the final weights of every run that is done, as STORE/weights/RUN.npz: numpy.load gives the "
       "parameters that 'crosstalk describe MEMORY' lists; \"every N\": also those at the first evaluation after every N steps, as "
       "RUN@STEP.npz (of PyTorch models the final ones alone). No part of a run's identity; where it is switched "
       "on later, 'run' trains those runs again whose weights are not kept, to the same records"},
      {"init_from", std::string(),
       "start from kept weights: STORE:RUN (the beginning of an id is enough), STORE that keeps those of one "
       "run, or a .npz file; names and shapes must be the model's"},
      {"init_digest", std::string(),
       "hash of the weights that init_from names, derived from them: it, not the path, is part of a run's identity"},
  };
  return options;
}

const std::vector<OptionSpec>& eval_options() {
  static const std::vector<OptionSpec> options = {
      {"every", std::int64_t{100}, "steps between evaluations (0: an epoch)", 0, 1e9},
      {"protocol",
       std::string("uniform"),
       "uniform: a fixed set of sequences, all queries of each, mean over queries; schlag2021: as the released code, 20 fresh sequences, at most 200 "
       "queries each, mean of the means of chunks of train.batch queries",
       0,
       0,
       {"uniform", "schlag2021"}},
      {"sequences", std::int64_t{64},
       "evaluation sequences (schlag2021: always 20; a mixture: of each segment that does not say how many)",
       1, 1 << 20},
      {"length_factors", std::string(),
       "lengths, as multiples of the training length, at which the trained memory is read once at the end, such as \"1 2 4 8\""},
      {"prefixes", std::string(),
       "numbers of answers, such as \"180 245\", for tasks of single tokens: besides, the share of the longest "
       "sequences whose first so many answers are all right, as points of exact_by_length"},
      {"piece", std::int64_t{0},
       "tokens of the pieces in which a language model reads longer test sequences, its states carried from "
       "one to the next, so that memory does not grow with them (0: whole; with task.eval_lanes, and there of validation, too: task.length)",
       0, 1 << 20},
  };
  return options;
}

namespace {

/// Whole numbers of at most `digits` digits.
std::vector<int> growing_numbers(const char* key, const std::string& text, std::size_t digits,
                                 const char* example) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  std::string word;
  while (stream >> word) {
    int number = 0;
    if (word.find_first_not_of("0123456789") == std::string::npos && word.size() <= digits)
      number = std::stoi(word);
    if (number < 1 || (!numbers.empty() && number <= numbers.back())) {
      throw OptionError(
          key,
          fmt::format(
              "{} = \"{}\": \"{}\" does not fit; want growing whole numbers of at least 1 separated by spaces, such as \"{}\"",
              key, text, word, example));
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

std::vector<int> length_factors(const std::string& text) {
  return growing_numbers("eval.length_factors", text, 4, "1 2 4 8");
}

std::vector<int> answer_prefixes(const std::string& text) {
  return growing_numbers("eval.prefixes", text, 8, "180 245");
}

namespace {

/// Throws OptionError where the longest sequences have fewer answers than a prefix, or nothing says how long they are.
void check_prefixes(const Options& options, const std::vector<int>& factors) {
  const std::vector<int> prefixes = answer_prefixes(options.get_string("eval.prefixes"));
  if (prefixes.empty()) return;
  const auto task = find_task(options.get_string("task.name"))->make(options);
  if (factors.empty() || task->vocabulary().tokens == 0 || !options.has("task.length") ||
      !task->segments(Split::test).empty())
    throw OptionError(
        "eval.prefixes",
        "eval.prefixes belongs to tasks of single tokens that have task.length, no segments and "
        "are read at other lengths; set eval.length_factors, or leave it out");
  const int answers = task->lengthened(factors.back())->shape(Split::test).Q;
  if (prefixes.back() > answers)
    throw OptionError(
        "eval.prefixes",
        fmt::format(
            "eval.prefixes = \"{}\", but the longest sequences (eval.length_factors) have {} answers; give at most that",
            options.get_string("eval.prefixes"), answers));
}

/// Checks and defaults by the number of steps of an epoch.
void resolve_share(Options& options) {
  const double share = options.get_double("train.share");
  if (share == 1) return;
  const auto shorten = [&](const char* key, std::int64_t least) {
    const double whole = static_cast<double>(options.get_int(key));
    options.set(key, std::max(least, std::int64_t{std::llround(share * whole)}));
  };
  if (options.get_int("train.epochs") > 0) {
    shorten("train.epochs", 1);
  } else if (options.get_int("train.max_steps") > 0) {
    shorten("train.max_steps", 1);
  }
  shorten("train.warmup_steps", 0);
  options.set("train.share", 1.0);
}

void resolve_epochs(Options& options) {
  const std::int64_t epochs = options.get_int("train.epochs");
  const bool by_epoch = options.get_string("train.schedule") == "cosine_epoch";
  const bool evaluated_by_epoch = options.get_int("eval.every") == 0;
  if (epochs == 0 && !by_epoch && !evaluated_by_epoch) return;
  const std::string& name = options.get_string("task.name");
  const auto task = find_task(name)->make(options);
  const std::int64_t steps = Epoch(*task, narrow<int>(options, "train.batch")).steps();
  if (steps == 0 || !task->stages().empty()) {
    const char* key = epochs > 0 ? "train.epochs" : by_epoch ? "train.schedule" : "eval.every";
    const std::string value = epochs > 0 ? fmt::format("{}", epochs)
                              : by_epoch ? "\"cosine_epoch\""
                                         : "0 (once an epoch)";
    throw OptionError(
        key,
        fmt::format(
            "{} = {}, but task {} has no epochs: {}; give train.max_steps, eval.every and another schedule",
            key, value, name, steps == 0 ? "it draws new sequences without end" : "it has stages"));
  }
  constexpr std::int64_t most = 1000000000;
  if (epochs > most / steps)
    throw OptionError("train.epochs", fmt::format("train.epochs = {} of {} steps are more than {} steps",
                                                  epochs, steps, most));
  if (epochs > 0) options.set("train.max_steps", epochs * steps);
  if (evaluated_by_epoch) options.set("eval.every", steps);
}

/// Steps are counted with 32 bits.
void check_mixture(const Options& options) {
  if (!options.has("task.segments") || options.get_string("task.segments").empty()) return;
  const auto task = find_task(options.get_string("task.name"))->make(options);
  const std::int64_t steps = Epoch(*task, narrow<int>(options, "train.batch")).steps();
  if (steps > std::numeric_limits<std::int32_t>::max())
    throw OptionError(
        "task.segments",
        fmt::format("task.segments makes an epoch of {} steps of train.batch = {}; at most {} "
                    "are supported, so give fewer sequences or a larger batch",
                    steps, options.get_int("train.batch"), std::numeric_limits<std::int32_t>::max()));
}

/// The released code of that paper knows one kind of sequence only.
void check_protocol(const Options& options) {
  if (options.get_string("eval.protocol") != "schlag2021") return;
  const auto task = find_task(options.get_string("task.name"))->make(options);
  if (task->segments(Split::eval).empty() && task->stages().empty()) return;
  throw OptionError("eval.protocol",
                    "eval.protocol = \"schlag2021\" has neither mixtures nor curricula; use \"uniform\"");
}

/// Builds the model, without memory, and not again for one that differs in its task and rates alone.
void check_no_decay(const Options& options) {
  const std::string& words = options.get_string("train.no_decay");
  if (words == "none") return;
  if (options.get_double("train.weight_decay") == 0)
    throw NoEffect(
        "train.no_decay",
        fmt::format(
            "train.no_decay = \"{}\" has no effect without train.weight_decay; leave it out, or set train.weight_decay",
            words));
  if (is_foreign(options)) return;  // Python looks at its model
  static thread_local Options passed;
  Options own;
  for (const auto& [key, value] : options.values())
    if (key.starts_with("model.") || key.starts_with("memory.") || key == "train.no_decay" ||
        key == "train.optimizer")
      own.set(key, value);
  if (own == passed) return;
  std::optional<MemoryMeasure> unallocated;
  if (!MemoryMeasure::active()) unallocated.emplace();
  const auto task = find_task(options.get_string("task.name"))->make(options);
  undecayed_parameters(options, make_model<float>(options, task->vocabulary(), Device::cpu, 1)->parameters());
  passed = std::move(own);
}

void check_optimizer(const Options& options) {
  const std::string& optimizer = options.get_string("train.optimizer");
  const double decay = options.get_double("train.weight_decay");
  if (decay != 0 && optimizer == "adam")
    throw OptionError(
        "train.weight_decay",
        fmt::format("train.weight_decay = {} needs train.optimizer = \"adamw\" or \"muon\"", decay));
  check_no_decay(options);
  if (optimizer == "muon") {
    if (options.get_string("model.name") != "language")
      throw OptionError("train.optimizer",
                        "train.optimizer = \"muon\" trains weights of linear maps, which only model.name = "
                        "\"language\" has; use \"adam\" or \"adamw\"");
    return;
  }
  for (const OptionSpec& spec : train_options()) {
    const std::string key = "train." + spec.name;
    if (!spec.name.starts_with("muon_") || options.at(key) == spec.default_value) continue;
    throw NoEffect(key, fmt::format("{} belongs to train.optimizer = \"muon\"; leave it out for \"{}\"", key,
                                    optimizer));
  }
}

/// The warm-up in steps, and options that a schedule refuses.
void resolve_schedule(Options& options) {
  const std::string& schedule = options.get_string("train.schedule");
  const std::int64_t steps = options.get_int("train.max_steps");
  const double share = options.get_double("train.warmup_share");
  if (share > 0) {
    if (options.get_int("train.warmup_steps") != 0)
      throw OptionError(
          "train.warmup_share",
          fmt::format("train.warmup_share = {} and train.warmup_steps = {} say the same; give one", share,
                      options.get_int("train.warmup_steps")));
    options.set("train.warmup_steps", std::llround(share * static_cast<double>(steps)));
    options.set("train.warmup_share", 0.0);
  }
  if (schedule == "one_cycle" && steps > 0) {
    const std::int64_t warmup = options.get_int("train.warmup_steps");
    if (steps < 3)
      throw OptionError(
          "train.max_steps",
          fmt::format(
              "train.max_steps = {}, but train.schedule = \"one_cycle\" needs at least 3: two of warm-up and one behind them",
              steps));
    if (share > 0 && warmup < 2)
      throw OptionError(
          "train.warmup_share",
          fmt::format(
              "train.warmup_share = {} of train.max_steps = {} is {} step{} of warm-up, and train.schedule = "
              "\"one_cycle\" needs two; give at least {} steps, or train.warmup_steps = 2",
              share, steps, warmup, warmup == 1 ? "" : "s", std::llround(std::ceil(1.5 / share))));
    if (warmup < 2 || warmup > steps - 1)
      throw OptionError(
          "train.schedule",
          fmt::format("train.schedule = \"one_cycle\" needs from 2 to {} steps of warm-up of its {}; give "
                      "train.warmup_share = 0.1 or train.warmup_steps",
                      steps - 1, steps));
  }
  if (const double least = options.get_double("train.least_rate");
      least > 0 && (schedule == "constant" || schedule == "one_cycle"))
    throw OptionError(
        "train.least_rate",
        fmt::format(
            "train.least_rate = {} belongs to train.schedule = \"cosine\", \"cosine_epoch\", \"linear\" and \"wsd\"; leave it out for \"{}\"",
            least, schedule));
  if (schedule != "wsd") {
    refuse_without_effect(options, "train", train_options(), "decay_share",
                          fmt::format("with train.schedule = \"{}\"", schedule),
                          "set train.schedule = \"wsd\"");
  } else if (const std::int64_t warmup = options.get_int("train.warmup_steps"),
             stable =
                 std::llround((1 - options.get_double("train.decay_share")) * static_cast<double>(steps));
             warmup > stable) {
    throw OptionError(
        "train.decay_share",
        fmt::format(
            "train.decay_share = {} of train.max_steps = {} begins at step {}, within the {} steps of "
            "warm-up; give a smaller share, or a shorter warm-up",
            options.get_double("train.decay_share"), steps, stable, warmup));
  }
}

/// Every stage of a schedule ends at an evaluation of its own.
void check_promotion(const Options& options) {
  const bool scheduled = options.get_string("train.promote") == "schedule";
  const std::string& name = options.get_string("task.name");
  const auto stages_of = [&] {
    return static_cast<std::int64_t>(find_task(name)->make(options)->stages().size());
  };
  const auto refuse_accuracy = [&](const std::string& why, const char* instead) {
    refuse_without_effect(options, "train", train_options(), "promote_accuracy", why, instead);
  };
  if (scheduled) {
    refuse_accuracy("with train.promote = \"schedule\"", "set train.promote = \"accuracy\"");
  } else if (!is_default(options, "train", train_options(), "promote_accuracy") && stages_of() == 0) {
    refuse_accuracy(fmt::format("on task {}, which has no stages", name),
                    "give task.curriculum where the task has it");
  }
  if (!scheduled) return;
  const std::int64_t stages = stages_of();
  if (stages == 0)
    throw OptionError(
        "train.promote",
        fmt::format(
            "train.promote = \"schedule\", but task {} has no curriculum; give task.curriculum or leave it out",
            name));
  const std::int64_t every = options.get_int("eval.every"), steps = options.get_int("train.max_steps");
  if (steps > 0 && (every == 0 || every > steps / stages))
    throw OptionError(
        "eval.every",
        fmt::format(
            "eval.every = {}, but each of {} stages has {} steps of train.max_steps = {} and ends at an evaluation; give at most {}",
            every, stages, steps / stages, steps, steps / stages));
}

/// Tokens of the longest sequence that a task draws in these splits, in any segment or stage.
int longest_sequence(const Task& task,
                     std::initializer_list<Split> splits = {Split::train, Split::eval, Split::test}) {
  int most = 0;
  for (const Split split : splits) {
    most = std::max(most, task.shape(split).T);
    for (const TaskSegment& segment : task.segments(split))
      most = std::max(most, segment.task->shape(split).T);
  }
  for (const TaskSegment& stage : task.stages()) most = std::max(most, longest_sequence(*stage.task, splits));
  return most;
}

/// A memory that cannot go on from a piece is found out here, and not when the first test is read.
void check_pieces(const Options& options, const Task& task, const std::vector<int>& factors) {
  const int piece = narrow<int>(options, "eval.piece"), window = eval_window(task), lanes = train_lanes(task);
  if (piece == 0 && window == 0) return;
  const char* key = window == 0 ? "eval.piece" : lanes > 0 ? "task.lanes" : "task.eval_lanes";
  if (is_foreign(options))
    throw OptionError(key, fmt::format("{} is for memories of this program; leave it out", key));
  const MemoryMeasure measure;
  const auto model = make_model<float>(options, task.vocabulary(), Device::cpu, 1);
  if (window > 0) model->pieces(1, {window, 1, 1}, {key, narrow<int>(options, key), lanes > 0});
  if (piece == 0) return;
  model->pieces(1, {piece, 1, 1});
  int longest = factors.empty() ? longest_sequence(task, {Split::test}) : 0;
  for (const int factor : factors)
    longest = std::max(longest, longest_sequence(*task.lengthened(factor), {Split::test}));
  if (longest <= piece)
    throw NoEffect("eval.piece", fmt::format("on test sequences of at most {} tokens", longest),
                   "give less than that");
}

/// Lanes of training are the sequences of its batches, and those of evaluation are read from end to end.
void check_lanes(Options& options) {
  const auto number = [&](const char* key) { return options.has(key) ? options.get_int(key) : 0; };
  const std::int64_t lanes = number("task.lanes"), read = number("task.eval_lanes"),
                     batch = options.get_int("train.batch");
  if (lanes > 0 && batch != lanes)
    throw OptionError(
        "train.batch",
        fmt::format("train.batch = {}, but training goes through task.lanes = {} at once; make the two equal",
                    batch, lanes));
  if (read == 0) return;
  if (options.get_string("eval.protocol") == "schlag2021")
    throw OptionError("eval.protocol",
                      "eval.protocol = \"schlag2021\" takes 20 fresh sequences, task.eval_lanes "
                      "read a split from end to end; leave one of the two out");
  if (options.get_int("eval.sequences") != read)
    refuse_without_effect(options, "eval", eval_options(), "sequences",
                          "with task.eval_lanes, which read whole splits", "leave it out");
  options.set("eval.sequences", read);
}

void check_race(const Options& options) {
  if (!options.get_bool("train.race")) return;
  if (is_foreign(options))
    throw OptionError(
        "train.race",
        "train.race = true, but PyTorch models are trained one after the other and cannot race; leave it out");
  if (!find_task(options.get_string("task.name"))->make(options)->stages().empty())
    throw OptionError(
        "train.race",
        "train.race = true, but runs of a curriculum (task.curriculum) leave its stages at steps of their own; leave out one of the two");
  if (is_probe(options)) throw NoEffect("train.race", "on a probe, which learns nothing", "train a model");
  if (options.get_double("train.stop_loss") == 0 && options.get_double("train.stop_accuracy") == 0)
    throw NoEffect("train.race", "without train.stop_loss and train.stop_accuracy", "set one of them");
}

/// Options that a probe refuses, since it learns nothing.
void check_probe(const Options& options) {
  if (!is_probe(options)) return;
  if (const std::int64_t steps = options.get_int("train.max_steps"); steps > 0)
    throw OptionError(
        "train.max_steps",
        fmt::format("train.max_steps = {}, but model.name = \"probe\" learns nothing; give 0", steps));
}

/// Compression is read off the last token, and without a decoder every answer stands at the token that is asked.
void check_decoder(const Options& options) {
  if (options.get_string("task.name") != "compression") return;
  if (options.has("model.decoder") && options.get_string("model.decoder") == "last") return;
  throw OptionError(
      "model.decoder",
      "task.name = \"compression\" asks at every token for the token itself, which is a task only where answers are made of what the last token "
      "holds; add model.decoder = \"last\" (and model.name = \"language\")");
}

/// Whether every evaluation sequence is of a segment that says how many it has, so that eval.sequences decides nothing. One that
/// is true of them, of each or in all, may stand.
bool counts_sequences(const Task& task, std::int64_t given) {
  for (const Split split : {Split::eval, Split::test}) {
    const auto segments = task.segments(split);
    if (segments.empty()) return false;
    std::int64_t all = 0;
    for (const TaskSegment& segment : segments) {
      if (segment.sequences == 0 || segment.sequences == given) return false;
      all += segment.sequences;
    }
    if (all == given) return false;
  }
  return true;
}

void resolve_sequences(Options& options) {
  const std::int64_t given = options.get_int("eval.sequences");
  if (options.get_string("eval.protocol") == "schlag2021") {
    if (given != 20)
      refuse_without_effect(options, "eval", eval_options(), "sequences",
                            "with eval.protocol = \"schlag2021\", which takes 20",
                            "set eval.protocol = \"uniform\"");
    options.set("eval.sequences", std::int64_t{20});
  } else if (!is_default(options, "eval", eval_options(), "sequences") && options.has("task.segments") &&
             counts_sequences(*find_task(options.get_string("task.name"))->make(options), given)) {
    throw NoEffect("eval.sequences", "on segments that say how many sequences they have",
                   "leave their numbers of sequences out");
  }
}

/// Learned positions must reach the end of every sequence, and so must a memory; found out here, and not when the first test
/// is read.
void check_lengths(const Options& options, const Task& task, const std::vector<int>& factors) {
  int most = longest_sequence(task);
  for (const int factor : factors) most = std::max(most, longest_sequence(*task.lengthened(factor)));
  if (const Memory* memory = find_memory(options.get_string("memory.name")))
    memory->state(options, 1, 1, most);
  if (!options.has("model.positions") || options.get_string("model.positions") != "learned") return;
  if (const std::int64_t given = options.get_int("model.max_length"); given < most)
    throw OptionError(
        "model.max_length",
        fmt::format(
            "model.max_length = {} is less than the {} tokens of the longest sequence of training, validation and test; give at least {}",
            given, most, most));
}

}  // namespace

void resolve_training(Options& options) {
  resolve_init_from(options);
  check_optimizer(options);
  check_protocol(options);
  check_mixture(options);
  resolve_share(options);
  check_lanes(options);
  resolve_epochs(options);
  resolve_schedule(options);
  check_promotion(options);
  check_race(options);
  check_probe(options);
  check_decoder(options);
  resolve_sequences(options);
  const std::vector<int> factors = length_factors(options.get_string("eval.length_factors"));
  const TaskKind& kind = *find_task(options.get_string("task.name"));
  const bool positions = options.has("model.positions") && options.get_string("model.positions") == "learned";
  check_prefixes(options, factors);
  if (factors.empty() && kind.drawn && !positions && options.get_int("eval.piece") == 0) return;
  const auto task = kind.make(options);
  check_pieces(options, *task, factors);
  check_lengths(options, *task, factors);
  const std::int64_t wanted = options.get_int("eval.sequences");
  const bool counted = counts_sequences(*task, wanted);
  if (counted)
    refuse_without_effect(options, "eval", eval_options(), "sequences",
                          "on segments, whose sequences are all read", "take the files of segments away");
  for (const auto& [split, name] : {std::pair{Split::eval, "eval"}, {Split::test, "test"}}) {
    const std::int64_t there = task->sequences(split);
    if (!counted && there > 0 && there < wanted)
      throw OptionError(
          "eval.sequences",
          fmt::format("eval.sequences = {}, but the {} split has {} sequences{}; give at most {}", wanted,
                      name, there,
                      unused_of(*task).empty() ? "" : fmt::format(" ({})", fmt::join(unused_of(*task), "; ")),
                      there));
  }
  for (const int factor : factors) task->lengthened(factor);  // throws where there is no longer form
}

}  // namespace crosstalk
