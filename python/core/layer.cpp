// Layers of the language model for PyTorch: how their parameters start, and one by itself as a plan.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/layer_model.h"

#include <fmt/format.h>

#include "kernels/base/device/cuda_runtime.h"
#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "models/apply_model.h"
#include "models/mixers/language_model.h"
#include "models/mixers/language_options.h"
#include "models/rules/rule_memory.h"
#include "python/core/plan.h"

using namespace nb::literals;

namespace crosstalk::python {
namespace {

std::string prefix_of(int layer) { return fmt::format("layers.{}.", layer); }

/// Inputs are x, states before the first token (s0), and parameters by their names in the layer (key.weight). With `replicas` each
/// of them, and all results, have [R,...] in front.
template <class Real>
class LayerPlan final : public Plan {
 public:
  LayerPlan(const Options& options, int layer, const LayerUse& use, const std::vector<std::uint64_t>& seeds,
            bool replicas)
      : model_(options, layer, use), replicas_(replicas) {
    const std::string prefix = prefix_of(layer);
    ParameterBlock<Real>& parameters = model_.parameters();
    for (int i = 0; i < parameters.count(); ++i) index_[parameters.name(i).substr(prefix.size())] = i;
    for (const auto& [state, variable] : model_.states().starts) starts_[start_name(state)] = state;
    const std::int32_t first = 0;
    const auto fill = [&](std::int32_t* to, const std::int32_t* from, std::size_t n) {
      if (use.device == Device::cuda)
        cuda_copy_to_device(to, from, n * sizeof(std::int32_t));
      else
        std::copy(from, from + n, to);
    };
    for (int r = 0; r < use.R; ++r) {
      parameters.initialise(r, 0);  // gradients that nothing writes are 0
      const std::uint64_t seed = seeds[static_cast<std::size_t>(r)];
      const std::int32_t words[] = {static_cast<std::int32_t>(seed), static_cast<std::int32_t>(seed >> 32)};
      fill(model_.feature_seed().at(r), words, 2);
      fill(model_.feature_draw().at(r), &first, 1);
    }
  }
  std::size_t word() const override { return sizeof(Real); }
  std::size_t bytes() const override {
    return model_.graph().bytes() + static_cast<std::size_t>(parameters().values().size()) * 4 * sizeof(Real);
  }
  std::optional<Place> input(const std::string& name) override {
    if (name == "x") return shown(model_.x()->value);
    if (const auto at = starts_.find(name); at != starts_.end())
      return shown(model_.states().starts.at(at->second)->value, model_.state_shape(at->second, {}));
    if (index_.count(name) != 0) return shown(parameters().value(index_.at(name)));
    return {};
  }
  std::optional<Place> gradient(const std::string& name) override {
    if (const auto at = starts_.find(name); at != starts_.end())
      return of(model_.states().starts.at(at->second), model_.state_shape(at->second, {}));
    if (name == "x") return of(model_.x(), dims(model_.x()->value));
    if (index_.count(name) != 0) return shown(parameters().gradient(index_.at(name)));
    return {};
  }
  Place output() override { return shown(model_.y()->value); }
  std::optional<Place> cotangent() override { return shown(model_.cotangent(), dims(model_.y()->value)); }
  std::vector<std::string> states() const override {
    std::vector<std::string> names;
    for (const auto& [name, state] : model_.states().ends) names.push_back(name);
    return names;
  }
  std::optional<Place> state(const std::string& name) override {
    const auto at = model_.states().ends.find(name);
    if (at == model_.states().ends.end()) return {};
    return shown(at->second->value, model_.state_shape(name, dims(at->second->value)));
  }
  std::optional<Place> end_cotangent(const std::string& name) override {
    const auto at = model_.end_cotangents().find(name);
    if (at == model_.end_cotangents().end()) return {};
    return shown(at->second->value, model_.state_shape(name, dims(at->second->value)));
  }
  void forward(const Exec& exec) override { model_.graph().forward(exec); }
  void backward(const Exec& exec) override { model_.graph().backward(exec); }

 private:
  static std::vector<int> dims(const Tensor<Real>& t) { return {t.dims, t.dims + t.rank}; }
  Place shown(const Tensor<Real>& t, const std::vector<int>& shape) const {
    return replicas_ ? places_of(t, shape) : place_of(t, shape);
  }
  Place shown(const Tensor<Real>& t) const { return shown(t, dims(t)); }
  std::optional<Place> of(const Variable<Real>* input, const std::vector<int>& shape) const {
    if (!input->gradient_written) return {};
    return shown(input->gradient, shape);
  }
  ParameterBlock<Real>& parameters() { return model_.parameters(); }
  const ParameterBlock<Real>& parameters() const { return const_cast<LayerPlan*>(this)->model_.parameters(); }
  LayerModel<Real> model_;
  const bool replicas_;
  std::map<std::string, int> index_;
  std::map<std::string, std::string> starts_;  ///< s0 -> S
};

Options checked_options(const nb::dict& given) {
  Options options = options_of(given);
  const Memory& memory = named_memory(options.get_string("memory.name"));
  nb::dict of_model, of_memory;
  for (const auto& [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name.starts_with("model.")) of_model[name.substr(6).c_str()] = value;
    if (name.starts_with("memory.") && name != "memory.name") of_memory[name.substr(7).c_str()] = value;
  }
  Options result;
  result.set("memory.name", memory.name);
  for (const auto& [name, value] : checked(of_model, model_options(), "model", "a layer"))
    result.set("model." + name, value);
  for (const auto& [name, value] : checked(of_memory, memory.options, "memory", memory.name))
    result.set("memory." + name, value);
  return result;
}

/// Resolved options of a layer around a memory, or of a language model of such layers, from some of them ("model.width",
/// "memory.key_norm").
nb::dict resolved_layer(const nb::dict& given, int tokens, int values) {
  const Options options = checked_options(given);
  return dict_of(layer_options(named_memory(options.get_string("memory.name")), options,
                               {.values = values, .tokens = tokens}));
}

/// Of resolved options of a language model: of each layer whether it is base_conv, and its options.
nb::list stacked_layers(const nb::dict& config) {
  nb::list all;
  for (const LanguageLayer& layer : language_layers(options_of(config)))
    all.append(nb::make_tuple(layer.conv, dict_of(layer.options)));
  return all;
}

/// (name, shape, numbers) of parameters that a seed makes.
nb::list shown(ParameterBlock<float>& parameters, std::uint64_t seed, std::size_t prefix) {
  parameters.initialise(0, seed);
  nb::list all;
  for (int i = 0; i < parameters.count(); ++i) {
    const Tensor<float> t = parameters.value(i);
    all.append(nb::make_tuple(parameters.name(i).substr(prefix), std::vector<int>(t.dims, t.dims + t.rank),
                              array_of(std::vector<float>(t.at(0), t.at(0) + t.size()))));
  }
  return all;
}

/// With the laws of model.init.
nb::list layer_parameters(const nb::dict& config, int layer, std::uint64_t seed) {
  const Options options = options_of(config);
  ParameterBlock<float> parameters(Device::cpu, 1);
  declare_layer(parameters, options, layer);
  parameters.allocate();
  return shown(parameters, seed, prefix_of(layer).size());
}

nb::list language_parameters(const nb::dict& config, int tokens, int values, std::uint64_t seed) {
  LanguageModel<float> model(options_of(config), {.values = values, .tokens = tokens}, Device::cpu, 1);
  return shown(model.parameters(), seed, 0);
}

nb::tuple states_of_layer(const nb::dict& config) {
  const Options options = options_of(config);
  const LayerStates states = layer_states(memory_of(options), options);
  nb::list names;
  for (std::size_t i = 0; i < states.names.size(); ++i)
    names.append(nb::make_tuple(states.names[i], start_name(states.names[i]), states.shapes[i]));
  return nb::make_tuple(names, states.refused);
}

/// Of a layer of resolved options: x [B,T,width], or [R,B,T,width] where `replicas` says so; a seed each.
std::unique_ptr<Recipe> layer_recipe(const nb::dict& config, int layer, int B, int T, bool starts, bool ends,
                                     const std::string& precision, const std::vector<std::uint64_t>& seeds,
                                     bool replicas) {
  const Options options = options_of(config);
  const nb::gil_scoped_release release;
  if (seeds.empty() || (!replicas && seeds.size() != 1)) throw nb::value_error("a layer has one seed");
  std::string key = fmt::format("layer {} {} {} {} {} {} {} {}", layer, B, T, starts, ends, precision,
                                replicas, fmt::join(seeds, " "));
  for (const auto& [name, value] : options.values()) key += fmt::format(" {}={}", name, to_text(value));
  const auto make = [=](Device device, int gradients) -> std::unique_ptr<Plan> {
    const LayerUse use = {.B = B,
                          .T = T,
                          .R = static_cast<int>(seeds.size()),
                          .device = device,
                          .backward = gradients > 0,
                          .starts = starts,
                          .ends = ends,
                          .end_gradients = gradients > 1,
                          .products = precision_of(precision)};
    if (precision == "fp64") return std::make_unique<LayerPlan<double>>(options, layer, use, seeds, replicas);
    return std::make_unique<LayerPlan<float>>(options, layer, use, seeds, replicas);
  };
  return std::make_unique<Recipe>(Recipe{std::move(key), make});
}

}  // namespace

void bind_layer(nb::module_& m) {
  m.def("layer_options", &resolved_layer, "given"_a, "tokens"_a = 2, "values"_a = 2);
  m.def("model_options", [] { return list_of(model_options()); });
  m.def("stacked_layers", &stacked_layers, "config"_a);
  m.def("layer_parameters", &layer_parameters, "config"_a, "layer"_a, "seed"_a);
  m.def("language_parameters", &language_parameters, "config"_a, "tokens"_a, "values"_a, "seed"_a);
  m.def(
      "layer_states", &states_of_layer, "config"_a,
      "[(state, its input before the first token, its shape for one sequence)] and why it cannot go on from states, or nothing.");
  m.def("layer_recipe", &layer_recipe, "config"_a, "layer"_a, "B"_a, "T"_a, "starts"_a, "ends"_a,
        "precision"_a, "seeds"_a, "replicas"_a);
}

}  // namespace crosstalk::python
