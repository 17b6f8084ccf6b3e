// SPDX-License-Identifier: Apache-2.0
#include "models/apply_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/base/text/no_effect.h"
#include "models/build.h"
#include "models/graph/nodes.h"
#include "models/graph/passes.h"
#include "models/parts/given_gradient.h"
#include "models/parts/levels.h"

namespace crosstalk {
namespace {

std::string shape_of(const MemoryInput& input) {
  switch (input.per) {
    case Per::token:
      return "[B,T,H]";
    case Per::key:
      return "[B,T,H,K]";
    case Per::value:
      return "[B,T,H,V]";
    case Per::write:
      return "[B,T,N,H]";
    case Per::head:
      return "[H]";
    case Per::head_key:
      return "[H,K]";
    case Per::other:
      return input.shape;
  }
  return "";
}

std::vector<int> dims_of(const Memory& memory, const std::string& shape, const ApplySizes& s) {
  const int K = s.mapped > 0 ? s.mapped : s.K;
  const std::map<char, int> sizes = {{'B', s.B}, {'T', s.T}, {'N', s.N},       {'H', s.H},
                                     {'K', K},   {'V', s.V}, {'M', hidden(K)}, {'L', kLevels}};
  std::vector<int> dims;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const char letter = shape[i];
    if (letter == '[' || letter == ',' || letter == ']') continue;
    if (std::isdigit(static_cast<unsigned char>(letter))) {  // a size of a law (models/rules/)
      std::size_t length = 0;
      dims.push_back(std::stoi(shape.substr(i), &length));
      i += length - 1;
      continue;
    }
    if (const auto own = memory.letters.find(letter); own != memory.letters.end()) {
      dims.push_back(with_letters(memory, s, {}).letters.at(letter));
      continue;
    }
    if (sizes.count(letter) == 0)
      throw MemoryError(
          memory.name,
          fmt::format("an input has the shape '{}'; write it in the letters B T N H K V M L "
                      "(M: hidden units, L: levels) or in those of .letters, for example \"[H,V,K]\"",
                      shape));
    dims.push_back(sizes.at(letter));
  }
  return dims;
}

bool writes_often(const Memory& memory) {
  const auto& options = memory.options;
  return std::any_of(options.begin(), options.end(), [](const OptionSpec& o) { return o.name == "writes"; });
}

}  // namespace

ApplySizes with_letters(const Memory& memory, ApplySizes sizes,
                        const std::map<std::string, OptionValue>& given) {
  for (const auto& [letter, name] : memory.letters) {
    const auto spec = std::find_if(memory.options.begin(), memory.options.end(),
                                   [&, &called = name](const OptionSpec& one) { return one.name == called; });
    if (spec == memory.options.end() || !std::holds_alternative<std::int64_t>(spec->default_value) ||
        std::string("BTNHKVML").find(letter) != std::string::npos)
      throw MemoryError(
          memory.name,
          fmt::format(
              ".letters gives '{}' to {}; it wants a letter that is none of B T N H K V M L and the name of a whole number in .options",
              letter, name));
    const auto found = given.find(name);
    const OptionValue& value = found == given.end() ? spec->default_value : found->second;
    if (found != given.end() || sizes.letters.count(letter) == 0)
      sizes.letters[letter] = static_cast<int>(std::get<std::int64_t>(value));
  }
  if (given.count("feature_map") != 0)
    sizes.mapped = narrow<int>(head_d_dot(apply_options(memory, sizes, given)), "memory.d_dot");
  return sizes;
}

std::vector<ApplyInput> apply_inputs(const Memory& kind, const ApplySizes& s) {
  std::vector<ApplyInput> inputs;
  if (kind.own_queries) inputs.push_back({"q", {s.B, s.T, s.H, s.K}, "[B,T,H,K]"});
  if (writes_often(kind)) {
    inputs.push_back({"k", {s.B, s.T, s.N, s.H, s.K}, "[B,T,N,H,K]"});
    inputs.push_back({"v", {s.B, s.T, s.N, s.H, s.V}, "[B,T,N,H,V]"});
  } else {
    if (kind.own_keys) inputs.push_back({"k", {s.B, s.T, s.H, s.K}, "[B,T,H,K]"});
    inputs.push_back({"v", {s.B, s.T, s.H, s.V}, "[B,T,H,V]"});
  }
  for (const MemoryInput& input : kind.inputs)
    inputs.push_back({input.name, dims_of(kind, shape_of(input), s), shape_of(input), input.optional});
  for (const std::string& state : kind.states) {
    const std::string name = start_name(state);
    const bool said = std::any_of(kind.inputs.begin(), kind.inputs.end(),
                                  [&](const MemoryInput& input) { return input.name == name; });
    const std::string shape = state == "S" ? "[B,H,V,K]" : state == "m" ? "[B,H]" : "[B,H,K]";  // of z, n
    if (!said) inputs.push_back({name, dims_of(kind, shape, s), shape, true});
  }
  return inputs;
}

std::vector<OptionSpec> apply_extra_options(const Memory& memory) {
  if (!memory.own_queries) return {};
  std::vector<OptionSpec> options = {
      {"scale", 1.0, "what q.k is multiplied by"},
      {"eps", 0.0, "added to denominators of reads", 0},
      {"denominator", false, "reads are divided by z.q + eps (memories with a state z)"}};
  // Every memory may be given mapped and normalised keys and queries.
  const auto& own = memory.options;
  const auto add = [&](const char* name, const Part& part) {
    if (std::any_of(own.begin(), own.end(), [&](const OptionSpec& o) { return o.name == name; })) return;
    options.insert(options.end(), part.options.begin(), part.options.end());
  };
  add("feature_map", feature_map("identity"));
  add("key_norm", key_norm("none"));
  if (memory.states.empty())
    options.push_back({"strict", false, "a token does not see itself (row 0 reads 0)"});
  return options;
}

std::vector<int> state_dims(const Memory& memory, const ApplySizes& sizes, const std::string& state,
                            const std::vector<int>& dims) {
  const auto size = [](const std::vector<int>& all) {
    return std::accumulate(all.begin(), all.end(), std::int64_t{1}, std::multiplies<>());
  };
  std::vector<int> shape = dims, row, number;
  if (state == "z" || state == "n") row = {dims[0], dims[1], dims[3]};  // of the state, [B,H,K]
  if (state == "m") number = {dims[0], dims[2]};                        // [B,H]
  for (const std::vector<int>& usual : {row, number})                   // a law may call any state so
    if (!usual.empty() && size(usual) == size(dims)) shape = usual;
  for (const ApplyInput& input :
       apply_inputs(memory, sizes))  // as its start, unless a map has made keys wider
    if (input.name == start_name(state) && size(input.dims) == size(dims)) shape = input.dims;
  return shape;
}

Options apply_options(const Memory& kind, const ApplySizes& sizes,
                      const std::map<std::string, OptionValue>& given) {
  Options options;
  options.set("memory.name", kind.name);
  options.set("model.d_key", std::int64_t{sizes.K} * sizes.H);
  options.set("model.heads", std::int64_t{sizes.H});
  fill_defaults(options, "memory", kind.options);
  fill_defaults(options, "memory", apply_extra_options(kind));
  for (const auto& [name, value] :
       std::map<std::string, OptionValue>{{"feature_map", std::string("identity")},
                                          {"key_norm", std::string("none")},
                                          {"read_norm", std::string("none")},
                                          {"writes", std::int64_t{sizes.N}}}) {
    if (options.has("memory." + name)) options.set("memory." + name, value);
  }
  for (const auto& [name, value] : given) options.set("memory." + name, value);
  if (options.has("memory.denominator") && options.get_bool("memory.denominator")) {
    if (std::count(kind.states.begin(), kind.states.end(), "z") == 0)
      throw OptionError("memory.denominator",
                        fmt::format("{} has no denominator: it carries no sum of keys z", kind.name));
    options.set("memory.read_norm", std::string("attention"));
  }
  if (options.has("memory.feature_map")) feature_map("identity").resolve(options);
  kind.resolve(options);
  return options;
}

std::vector<std::string> apply_forms(const Memory& memory, std::map<std::string, OptionValue> given,
                                     std::optional<ApplySizes> of) {
  ApplySizes sizes = of.value_or(ApplySizes{.H = 1, .K = 2, .V = 1, .N = writes_often(memory) ? 2 : 1});
  sizes.B = 1, sizes.T = 2;
  given.erase("form");
  if (!apply_options(memory, sizes, given).has("memory.form"))
    return {memory.forms_state ? "recurrent" : "parallel"};
  std::vector<std::string> forms;
  for (const std::string& form : form_names()) {
    if (form == name_of(Form::automatic)) continue;
    try {
      given["form"] = form;
      ApplyModel<double>(memory, apply_options(memory, sizes, given), sizes, {}, Device::cpu, false);
      forms.push_back(form);
    } catch (const OptionError&) {  // does not cover it
    }
  }
  return forms;
}

template <class Real>
class ApplyModel<Real>::ApplyMixer final : public Mixer<Real> {
 public:
  using Mixer<Real>::graph, Mixer<Real>::options, Mixer<Real>::B, Mixer<Real>::T, Mixer<Real>::Q;
  using Mixer<Real>::H, Mixer<Real>::d, Mixer<Real>::K, Mixer<Real>::V, Mixer<Real>::N;

  ApplyMixer(ApplyModel& model, const Options& options_, const ApplySizes& s)
      : Mixer<Real>(model.graph_, options_,
                    {s.B, s.T, s.T, s.H, s.K, narrow<int>(head_d_dot(options_), "memory.d_dot"), s.V, s.N}),
        model_(model),
        sizes_(s) {}

  Var<Real> keys() override {
    if (model_.inputs_.count("k") == 0) return {};
    return leaf("k", {B, T * N, H, d});
  }
  Var<Real> queries() override {
    if (model_.inputs_.count("q") == 0) return {};
    return leaf("q", {B, T, H, d});
  }
  Var<Real> values() override { return leaf("v", {B, T * N, H, V}); }
  const Tensor<std::int32_t>* position() const override { return nullptr; }
  Var<Real> token(const std::string& name, int, std::optional<Init>, Through, bool) override { refuse(name); }
  Var<Real> asking(const std::string& name, int, std::optional<Init>, Through) override { refuse(name); }
  Var<Real> parameter(const std::string& name, std::vector<int>, Init) override { refuse(name); }

  Var<Real> input(const std::string& name, const std::function<Var<Real>()>& law) override {
    const auto inputs = apply_inputs(model_.memory_, sizes_);
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const ApplyInput& i) { return i.name == name; });
    if (found == inputs.end()) return this->by_law(name, law);  // which says so
    std::int64_t size = 1;
    for (const int n : found->dims) size *= n;
    const std::string& shape = found->shape;
    if (shape.rfind("[H", 0) == 0) return leaf(name, {1, 1, H, size / H});
    if (shape.rfind("[B", 0) != 0) return leaf(name, {1, 1, 1, size});  // of all heads
    const Size M = shape.find('T') == std::string::npos   ? Size(1)
                   : shape.find('N') == std::string::npos ? T
                                                          : T * N;
    return leaf(name, {B, M, H, size / (std::int64_t{B} * M * H)});
  }

  Variable<Real>* omega(int m) override {
    Tensor<std::int32_t>*seeds = graph.integers({2}), *draw = graph.integers({1});
    return favor_features(graph, m, d, seeds, draw, 0u);
  }

  // Attention scales its products, a recurrence its queries.
  double scale() const override { return extra("scale").get_double("memory.scale"); }
  bool strict() const override {
    return options.has("memory.strict") && extra("strict").get_bool("memory.strict");
  }
  double query_scale() const override {
    return model_.memory_.states.empty() ? 1 : extra("scale").get_double("memory.scale");
  }
  double read_eps() const override { return extra("eps").get_double("memory.eps"); }
  /// Nothing hidden: just enough that a row of zeros stays one.
  double norm_eps() const override { return sizeof(Real) == sizeof(double) ? 1e-300 : 1e-37; }
  bool learned() const override { return false; }
  bool has_input(const std::string& name) const override { return model_.inputs_.count(name) != 0; }
  Var<Real> start(const std::string& state) override {
    const std::string name = start_name(state);
    if (!has_input(name)) return {};
    return state == "S" ? leaf(name, {B, H, V, K}) : input(name, {});
  }
  bool wants_end() const override { return model_.ends_; }
  void end(const std::string& state, Var<Real> value) override {
    graph.keep(value.variable);
    model_.states_[state] = value.variable;
  }

 private:
  Var<Real> leaf(const std::string& name, std::initializer_list<Dimension> dims) {
    model_.read_.insert(name);
    return {&graph, graph.view(model_.inputs_.at(name), dims)};
  }
  /// The options, of which the memory asks for this one.
  const Options& extra(const char* name) const {
    model_.read_.insert(std::string("memory.") + name);
    return options;
  }
  [[noreturn]] static void refuse(const std::string& name) {
    throw std::logic_error(fmt::format(
        "it asks for the projection or parameter {0} outside of an input's law, which crosstalk apply cannot "
        "be given; write m.input(\"NAME\", [&] {{ return ... {0} ...; }}) and list NAME in .inputs",
        name));
  }
  ApplyModel& model_;
  const ApplySizes sizes_;
};

template <class Real>
ApplyModel<Real>::ApplyModel(const Memory& memory, const Options& options, const ApplySizes& sizes,
                             const std::vector<std::string>& present, Device device, bool backward,
                             Precision products, bool ends, bool end_gradients)
    : memory_(memory), graph_(device, 1, backward), ends_(ends) {
  graph_.set_products(products);
  for (const ApplyInput& input : apply_inputs(memory, sizes)) {
    if (input.optional && std::count(present.begin(), present.end(), input.name) == 0) continue;
    Tensor<Real> shape;
    shape.R = 1;
    for (const int n : input.dims) shape.dims[shape.rank++] = n;
    inputs_[input.name] = graph_.tensor(shape);
  }
  ApplyMixer mixer(*this, options, sizes);
  const Var<Real> o = build_memory(memory, mixer);
  for (const std::string& name : present)
    if (has_input(name) && read_.count(name) == 0)
      throw OptionError(
          "memory.name",
          fmt::format("{} does not use its input {} with these options; leave it out", memory.name, name));
  for (const OptionSpec& spec : apply_extra_options(memory)) {
    const std::string key = "memory." + spec.name;
    if ((spec.name == "eps" || spec.name == "scale" || spec.name == "strict") && read_.count(key) == 0)
      refuse_without_effect(
          options, "memory", {spec}, spec.name, fmt::format("on {} with these options", memory.name),
          spec.name == "eps" ? "it is added where reads are divided by z.q (denominator = true)"
                             : "nothing asks for it");
  }
  output_ = o.variable;
  graph_.keep(output_);
  if (backward) {
    cotangent_ = given_gradient(graph_, output_);
    for (const auto& [name, state] : states_)
      if (end_gradients && state->root()->needs_gradient)
        end_cotangents_[name] = given_gradient(graph_, state);
  } else {
    cotangent_ = graph_.variable({sizes.B, sizes.T, sizes.H, sizes.V}, false);
  }
  run_passes(graph_);
  graph_.plan();
}

template class ApplyModel<float>;
template class ApplyModel<double>;

}  // namespace crosstalk
