// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/layer_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/base/error.h"
#include "models/apply_model.h"
#include "models/graph/passes.h"
#include "models/mixers/language_options.h"
#include "models/parts/given_gradient.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

std::string prefix_of(int layer) { return fmt::format("layers.{}.", layer); }

/// Sizes of the memory in a layer, in the letters of apply.
ApplySizes sizes_of(const Memory& memory, const Options& options, int B, int T) {
  ApplySizes sizes{.B = B, .T = T};
  sizes.H = narrow<int>(heads_of(options), "model.heads");
  sizes.K = narrow<int>(head_d_dot(options), "memory.d_dot");
  sizes.V = narrow<int>(options, "model.d_value") / sizes.H;
  if (options.has("memory.writes")) sizes.N = narrow<int>(options, "memory.writes");
  std::map<std::string, OptionValue> letters;
  for (const auto& [letter, name] : memory.letters) letters[name] = options.at("memory." + name);
  return with_letters(memory, sizes, letters);
}

template <class Real>
void make_batch(ModelGraph<Real>& target, int B, int T) {
  target.batch.B = B, target.batch.T = target.batch.Q = T, target.batch.C = 1;
  target.feature_seed = target.graph.integers({2});
  target.feature_draw = target.graph.integers({1});
}

}  // namespace

Options layer_options(const Memory& memory, const Options& given, const Vocabulary& vocabulary) {
  Options options = given;
  options.set("model.name", "language");
  options.set("memory.name", memory.name);
  std::vector<std::string> said;
  for (const auto& [key, value] : given.values()) said.push_back(key);
  const bool published = given.has("model.layer") && given.get_string("model.layer") == "published";
  if (published) {
    for (const auto& [key, value] : memory.published.set)
      if (!given.has(key)) options.set(key, value);
  }
  fill_defaults(options, "model", model_options());
  fill_defaults(options, "memory", memory.options);
  if (published) publish(options, memory, said);
  // A layer of its own is the first one: what the authors mix in of an earlier layer, nobody hands to it.
  if (options.get_bool("model.value_residual")) {
    if (given.has("model.value_residual"))
      throw OptionError(
          "model.value_residual",
          "model.value_residual mixes in the values of an earlier layer, and a layer in PyTorch stands alone; leave it out, and mix "
          "them in a model of your own");
    options.set("model.value_residual", false);
  }
  resolve_model(options, vocabulary);
  memory.resolve(options);
  if (options.get_double("model.weight_dropout") > 0)
    throw OptionError(
        "model.weight_dropout",
        "model.weight_dropout is of models that crosstalk trains: a layer in PyTorch drops nothing inside; leave it out");
  return options;
}

template <class Real>
void declare_layer(ParameterBlock<Real>& parameters, const Options& options, int layer) {
  ModelGraph<Real> target(Device::cpu, 1, false);
  make_batch(target, 1, 1);
  LayerWeights<Real> weights(target.graph, parameters, options, prefix_of(layer));
  Variable<Real>* x = target.graph.variable({1, 1, narrow<int>(options, "model.width")});
  memory_layer<Real>(target, weights, options, x, nullptr, layer);
}

LayerStates layer_states(const Memory& memory, const Options& options) {
  const auto refused = [](std::string why) { return LayerStates{{}, {}, std::move(why)}; };
  if (memory.states.empty())
    return refused(fmt::format("{} keeps its keys and values, not a state", memory.name));
  for (const auto& [key, neutral] : {std::pair{"model.short_conv", "none"},
                                     {"model.token_shift", "none"},
                                     {"model.input_shift", "none"},
                                     {"model.input_conv", ""}})
    if (options.get_string(key) != neutral)
      return refused(fmt::format("{} = \"{}\" looks at tokens before, which no state holds", key,
                                 options.get_string(key)));
  if (options.get_int("model.blocks") > 0)
    return refused("model.blocks has a convolution that looks at tokens before, which no state holds");
  const std::vector<ApplyInput> inputs = apply_inputs(memory, sizes_of(memory, options, 1, 1));
  LayerStates states;
  ModelGraph<double> target(Device::cpu, 1, false);  // which of them it keeps, its options decide
  make_batch(target, 1, 1);
  ParameterBlock<double> parameters(Device::cpu, 1);
  declare_layer(parameters, options, 0);
  parameters.allocate();
  LayerWeights<double> weights(target.graph, parameters, options, prefix_of(0));
  Carried<double> carried;
  memory_layer<double>(target, weights, options,
                       target.graph.variable({1, 1, narrow<int>(options, "model.width")}), nullptr, 0,
                       nullptr, &carried);
  for (const auto& [state, variable] : carried.ends) {
    const auto start =
        std::find_if(inputs.begin(), inputs.end(),
                     [wanted = start_name(state)](const ApplyInput& input) { return input.name == wanted; });
    if (start == inputs.end())
      return refused(fmt::format("{} does not take its state {} back", memory.name, state));
    states.names.push_back(state);
    states.shapes.push_back(start->dims);
  }
  return states;
}

template <class Real>
LayerModel<Real>::LayerModel(const Options& options, int layer, const LayerUse& use)
    : options_(options), parameters_(use.device, use.R), target_(use.device, use.R, use.backward) {
  declare_layer(parameters_, options_, layer);
  parameters_.allocate();
  Graph<Real>& graph = target_.graph;
  graph.set_products(use.products);
  make_batch(target_, use.B, use.T);
  x_ = graph.variable({use.B, use.T, narrow<int>(options_, "model.width")});
  const Memory& memory = memory_of(options_);
  const std::vector<std::string> carries =
      use.starts ? layer_states(memory, options_).names : std::vector<std::string>{};
  for (const std::string& state : carries) {
    const std::vector<int> dims = state_shape(state, {});
    std::int64_t size = 1;
    for (const int n : dims) size *= n;
    // Shape as apply gives it to memories.
    const int B = use.B, H = narrow<int>(heads_of(options_), "model.heads");
    carried_.starts[state] = state == "S" ? graph.variable({dims[0], dims[1], dims[2], dims[3]})
                                          : graph.variable({B, 1, H, size / (std::int64_t{B} * H)});
  }
  LayerWeights<Real> weights(graph, parameters_, options_, prefix_of(layer));
  y_ = memory_layer<Real>(target_, weights, options_, x_, nullptr, layer, nullptr,
                          use.starts || use.ends ? &carried_ : nullptr);
  graph.keep(y_);
  if (use.backward) {
    cotangent_ = given_gradient(graph, y_);
    for (const auto& [name, state] : carried_.ends)
      if (use.end_gradients && state->root()->needs_gradient)
        end_cotangents_[name] = given_gradient(graph, state);
  }
  run_passes(graph);
  graph.plan();
}

template <class Real>
std::vector<int> LayerModel<Real>::state_shape(const std::string& state, const std::vector<int>& dims) const {
  const Memory& memory = memory_of(options_);
  const ApplySizes sizes = sizes_of(memory, options_, target_.batch.B, target_.batch.T);
  if (!dims.empty()) return state_dims(memory, sizes, state, dims);
  for (const ApplyInput& input : apply_inputs(memory, sizes))
    if (input.name == start_name(state)) return input.dims;
  throw std::logic_error("[layer] no start of the state " + state);
}

template void declare_layer(ParameterBlock<float>&, const Options&, int);
template void declare_layer(ParameterBlock<double>&, const Options&, int);
template class LayerModel<float>;
template class LayerModel<double>;

}  // namespace crosstalk
