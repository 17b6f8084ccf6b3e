// SPDX-License-Identifier: Apache-2.0
#include "experiments/study/study_fixture.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/base/text/no_effect.h"

namespace crosstalk {
namespace {

using Int = std::int64_t;

void resolve_recall(Options& options) {
  for (const char* key : {"task.keys", "task.values"}) {
    if (options.get_int(key) == 0) options.set(key, options.get_int("task.associations"));
    if (options.get_int(key) < options.get_int("task.associations")) {
      throw OptionError(key, fmt::format("{} must be at least task.associations", key));
    }
  }
}

TaskSizes recall_sizes(const Options& options) {
  Vocabulary vocabulary;
  vocabulary.keys = narrow<int>(options, "task.keys");
  vocabulary.values = narrow<int>(options, "task.values");
  return {vocabulary, options.get_int("task.associations")};
}

void resolve_features(Options& options) {
  const Int d_key = options.get_int("model.d_key"), wanted = options.get_int("memory.d_dot");
  const bool dpfp = options.get_string("memory.feature_map") == "dpfp";
  if (!dpfp && options.get_int("memory.nu") != 1)
    throw NoEffect("memory.nu", "without DPFP", "set memory.feature_map = \"dpfp\"");
  const Int d_dot = dpfp ? 2 * d_key * options.get_int("memory.nu") : d_key;
  if (wanted != 0 && wanted != d_dot) {
    throw OptionError("memory.d_dot",
                      fmt::format("memory.d_dot = {} has no solution, got {}", wanted, d_dot));
  }
  options.set("memory.d_dot", d_dot);
}

Int feature_d_dot(const Options& options) { return options.get_int("memory.d_dot"); }
Int no_d_dot(const Options&) { return 0; }
Int matrix_state(const Options& options, Int values, Int) { return values * options.get_int("memory.d_dot"); }
Int cache_state(const Options& options, Int values, Int length) {
  return length * (values + options.get_int("model.d_key"));
}

void resolve_embedding(Options& options, const Vocabulary& vocabulary) {
  if (options.get_int("model.embedding") == 0)
    options.set("model.embedding", Int{(vocabulary.keys + vocabulary.values) * 11 / 10});
}

void resolve_factors(Options& options) {
  const std::string& text = options.get_string("eval.length_factors");
  if (text.find_first_not_of("0123456789 ") != std::string::npos) {
    throw OptionError("eval.length_factors", "eval.length_factors wants whole numbers such as \"1 2 4\"");
  }
  if (text.find(' ') != std::string::npos && options.get_string("task.name") == "recall") {
    throw OptionError("eval.length_factors", "recall has no longer form; use reassign or swap");
  }
}

std::vector<OptionSpec> feature_options(const char* key_norm) {
  return {{"feature_map", std::string("elu1"), "Feature map", -1, 1, {"identity", "elu1", "relu", "dpfp"}},
          {"nu", Int{1}, "Of DPFP", 1, 64},
          {"d_dot", Int{0}, "Feature dimension; 0 means derived", 0, 1 << 20},
          {"key_norm", std::string(key_norm), "Key normalisation", -1, 1, {"none", "sum", "l2"}}};
}

Schema make_schema() {
  Schema schema;
  const std::vector<OptionSpec> recall = {{"associations", Int{20}, "Load", 1, 1 << 24},
                                          {"keys", Int{0}, "Key vocabulary", 0, 1 << 24},
                                          {"values", Int{0}, "Value vocabulary", 0, 1 << 24},
                                          {"queries", Int{1}, "Queries", 1, 1 << 24}};
  std::vector<OptionSpec> reassign = recall;
  reassign.push_back({"update_fraction", 0.5, "Fraction of updates", 0, 1});
  schema.tasks = {{"recall", recall, resolve_recall, recall_sizes},
                  {"reassign", reassign, resolve_recall, recall_sizes}};
  const auto memory = [](const char* name, std::vector<OptionSpec> options, auto resolve, auto d_dot,
                         auto state) {
    SchemaMemory kind;
    kind.name = name;
    kind.options = std::move(options);
    kind.resolve = resolve;
    kind.d_dot = d_dot;
    kind.state_size = state;
    return kind;
  };
  schema.memories = {
      memory("softmax", {}, nullptr, no_d_dot, cache_state),
      memory("linear_attention", feature_options("none"), resolve_features, feature_d_dot, matrix_state),
      memory("delta", feature_options("sum"), resolve_features, feature_d_dot, matrix_state)};
  schema.memories[2].options.push_back({"beta_max", 1.0, "Largest write strength", 0, 2, {}, true});
  schema.model = {{"name", std::string("retrieval"), "Model", -1, 1, {"retrieval"}},
                  {"d_key", Int{64}, "Key dimension", 1, 4096},
                  {"embedding", Int{0}, "Embedding dimension; 0 means derived", 0, 1 << 24}};
  schema.train = {{"learning_rate", 1e-3, "Step size", 0, 1e9, {}, true},
                  {"batch", Int{32}, "Sequences a step", 1, 1 << 20},
                  {"max_steps", Int{100000}, "Step limit", 0, Int{1} << 40},
                  {"stop_loss", 1e-3, "Stop at this loss", 0, 1e9},
                  {"patience", Int{10}, "Evaluations without gain", 0, 1 << 30}};
  schema.eval = {{"every", Int{100}, "Steps between evaluations", 1, 1 << 30},
                 {"protocol", std::string("uniform"), "Protocol", -1, 1, {"uniform", "schlag2021"}},
                 {"length_factors", std::string(), "Lengths to read at", -1, 1, {}}};
  schema.resolve_model = resolve_embedding;
  schema.resolve_training = resolve_factors;
  return schema;
}

}  // namespace

const Schema& fixture_schema() {
  static const Schema schema = make_schema();
  return schema;
}

std::string example_study() {
  return R"toml([study]
name  = "schlag2021_capacity"
title = "Capacity without replacement (Schlag, Irie, Schmidhuber 2021, setting 1)"
seeds = { range = [1, 5] }               # inclusive; or a list

[base]                                    # one run; what is left out takes its registered default
task.name           = "recall"            # recall | reassign | swap | mqar | ...
task.associations   = 20
task.queries        = 1
model.name          = "retrieval"         # retrieval | language
model.d_key         = 64
train.learning_rate = 1e-3
train.batch         = 32
train.max_steps     = 100_000
train.stop_loss     = 1e-3
train.patience      = 10
eval.every          = 100
eval.protocol       = "schlag2021"        # uniform | schlag2021

[memories.softmax]                        # the table's name is the label in plans, exports and figures
name = "softmax"
[memories.linear]
name = "linear_attention"                 # a registered memory = a preset over parts
feature_map = "elu1"
[memories.dpfp2]
name = "linear_attention"
feature_map = "dpfp"
nu = 2                                    # or d_dot = 256, solved for nu; refused if it has no solution
[memories.dpfp1_delta]
name = "delta"
feature_map = "dpfp"
nu = 1
key_norm = "sum"

[[grid]]                                  # cartesian product inside a block; blocks are added up
memory = ["softmax", "linear", "dpfp2"]
"task.associations" = { range = [20, 600, 20] }

[[grid.zip]]                              # optional: advance together
"model.d_key"         = [16, 32]
"train.learning_rate" = [3e-3, 1e-3]

[[grid.skip]]                             # optional: leave out what matches
memory = "softmax"
"task.associations" = 600
)toml";
}

std::string example_with(const std::string& from, const std::string& to) {
  std::string text = example_study();
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the example study has no " + from);
  return text.replace(at, from.size(), to);
}

}  // namespace crosstalk
