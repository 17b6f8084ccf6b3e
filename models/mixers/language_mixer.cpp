// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/language_mixer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "models/build.h"
#include "models/memories/memory_file.h"
#include "models/parts/ramps.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

template <class Real>
MixerSizes sizes_of(const Options& options, const BatchTensors& batch, int queries) {
  MixerSizes s;
  s.B = batch.B, s.T = batch.T, s.Q = queries;
  s.H = narrow<int>(heads_of(options), "model.heads");
  s.d = narrow<int>(head_d_key(options), "model.d_key");
  s.K = narrow<int>(head_d_dot(options), "memory.d_dot");
  s.V = narrow<int>(options, "model.d_value") / s.H;
  s.N = options.has("memory.writes") ? narrow<int>(options, "memory.writes") : 1;
  return s;
}

}  // namespace

template <class Real>
Variable<Real>* dropped(ModelGraph<Real>& target, double rate, Variable<Real>* x) {
  if (!target.graph.train() || rate == 0) return x;
  if (target.dropout_draw == nullptr) target.dropout_draw = target.graph.integers({1});
  return dropout(target.graph, rate, target.dropouts++, x, target.feature_seed, target.dropout_draw);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project(Variable<Real>* x, const std::string& name, int columns,
                                            Init weight, const Init& bias, bool biased) {
  const std::string plain = name.ends_with(".up") ? name.substr(0, name.size() - 3) : name;
  projections_.push_back(plain);
  for (const NamedBias& one : biases_)
    if (one.name == plain) biased = one.has;
  const int inputs = x->value.columns();
  return linear(graph_, x, leaf(name + ".weight", {columns, inputs}, weight),
                biased ? leaf(name + ".bias", {columns}, bias) : nullptr);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project(Variable<Real>* x, const std::string& name, int columns) {
  return project_from(x, name, columns, 1);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project(Variable<Real>* x, const std::string& name, int columns,
                                            Init bias, std::optional<Init> weight) {
  return project(x, name, columns, weight.value_or(law(x->value.columns())), bias, true);
}

template <class Real>
Init LayerWeights<Real>::law_of(const std::string& name, int inputs, int columns) const {
  const bool is_one = name == "query" || name == "key" || name == "value";
  if (start_ == "orthogonal" && is_one) return Init::orthogonal(1);
  if (start_ == "xavier" && (is_one || name == "out_gate" || name == "output"))
    return Init::uniform((name == "output" ? 1 : std::pow(2, -2.5)) * std::sqrt(6.0 / (inputs + columns)));
  if (start_ == "small")
    return Init::normal(name == "output" ? 2 / (layers_ * std::sqrt(width_)) : std::sqrt(2 / (5.0 * width_)));
  return law(inputs);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project_from(Variable<Real>* x, const std::string& name, int columns,
                                                 double start) {
  const int inputs = x->value.columns();
  return project(x, name, columns, law_of(name, inputs, columns).times(start), bias_law(inputs), bias_);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::back(Variable<Real>* x, const std::string& name, int columns) {
  const bool is_output = name == "output";
  Init weight = law(x->value.columns());
  if (zero_back_ && is_output)
    weight = Init::constant(0);
  else if (is_output && (start_ == "xavier" || start_ == "small"))
    weight = law_of(name, x->value.columns(), columns);
  else if (deviation_ > 0 && !plain_back_)
    weight = Init::normal(deviation_ / std::sqrt(2.0 * layers_));
  return project(x, name, columns, weight, bias_law(x->value.columns()), bias_);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::blockwise(Variable<Real>* x, const std::string& name, int size) {
  const Size B(x->value.dim(0)), T(x->value.dim(1)), C(x->value.dim(2)), n(size);
  const Var<Real> rows{&graph_, graph_.view(x, {B * T, C / n, 1, n})};
  auto* weight = leaf(name + ".weight", {C, n}, law_of(name, size, size));
  const Var<Real> maps{&graph_, graph_.view(weight, {1, C / n, n, n})};
  return graph_.view(fold(maps * rows, {B * T, C / n, n, 1}).variable, {B, T, C});
}

template <class Real>
void LayerWeights<Real>::check_names() const {
  const auto check = [&](const char* key, const std::string& name) {
    if (std::find(projections_.begin(), projections_.end(), name) != projections_.end()) return;
    const std::string near = nearest_name(name, projections_);
    throw OptionError(key, fmt::format("{} names {}, which no projection of the layer is called; it has {}{}",
                                       key, name, fmt::join(projections_, ", "),
                                       near.empty() ? "" : fmt::format(": did you mean {}?", near)));
  };
  for (const NamedBias& one : biases_)
    if (one.name != "out_gate") check("model.biases", one.name);  // it may be off
  for (const std::string& name : convolved_) check("model.input_conv", name);
}

template <class Real>
LanguageMixer<Real>::LanguageMixer(ModelGraph<Real>& target, LayerWeights<Real>& weights,
                                   const Options& options_, Variable<Real>* x, Variable<Real>* asking,
                                   int layer, Captured<Real>* captured, Carried<Real>* carried,
                                   Variable<Real>** first_values)
    : Mixer<Real>(target.graph, options_,
                  sizes_of<Real>(options_, target.batch, asking ? target.batch.Q : target.batch.T)),
      target_(target),
      weights_(weights),
      x_(x),
      asking_(asking),
      layer_(layer),
      rate_(memory_of(options_).keeps_keys ? options_.get_double("model.weight_dropout") : 0),
      own_keys_(memory_of(options_).own_keys),
      parts_(graph, options_,
             [this](const std::string& name, const std::vector<int>& dims, Init init) {
               const bool by_depth =
                   name == "out_norm.gain" && options.get_string("model.out_norm_start") == "depth";
               return weights_.leaf(name, dims, by_depth ? init.times(gain_of_depth()) : init);
             }),
      captured_(captured),
      carried_(carried),
      first_values_(first_values) {}

template <class Real>
Variable<Real>* LanguageMixer<Real>::source() {
  if (!options.get_bool("model.inner")) return x_;
  return graph.view(values().variable, {B, T, H * V});
}

template <class Real>
Init LanguageMixer<Real>::shift_start(const std::string& name) const {
  const std::string& start = options.get_string("model.input_shift_start");
  if (start == "uniform") return Init{Init::Law::uniform, 0, 1};
  const double left = 1 - static_cast<double>(layer_) / static_cast<double>(options.get_int("model.layers"));
  const auto is = [&](std::initializer_list<const char*> names) {
    return std::any_of(names.begin(), names.end(), [&](const char* one) { return name == one; });
  };
  const bool asks = is({"query", "out_gate", "receptance"});
  const double power = start == "rwkv7" ? (asks ? 0.2 : is({"decay", "rate"}) ? 0.9 : 0.7) : (asks ? 0.5 : 1);
  const double lift = start == "rwkv4" && name == "value" ? 0.3 * depth() : 0;
  return Init::listed(shift_starts(x_->value.columns(), power * left, lift));
}

template <class Real>
bool LanguageMixer<Real>::sees_convolved(const std::string& name) const {
  const std::vector<std::string> names = words_of(options.get_string("model.input_conv"));
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <class Real>
Variable<Real>* LanguageMixer<Real>::seen_by(const std::string& name, const std::string& quantity) {
  constexpr int kRank = 32;
  if (sees_convolved(name)) {
    if (!convolved_) convolved_ = parts_.convolved_as_told("input", x_, true, this);
    return convolved_;
  }
  const std::string& shift = options.get_string("model.input_shift");
  if (shift == "none") return name == "value" ? x_ : source();
  const int width = x_->value.columns();
  const Var<Real> own = shaped_as(x_, {B, T, 1, width});
  if (!behind_) behind_ = (piece() ? piece()->token_before("input_shift.token", own) : delayed(own)) - own;
  const auto mu = [&](const std::string& of, const std::string& whose) {
    const auto asking = weights_.asking(whose);
    return shaped_as(weights_.leaf("input_shift." + of, {width}, shift_start(of)), {1, 1, 1, width});
  };
  Var<Real> share = mu(name, quantity);
  if (shift == "token") {
    if (!guess_) guess_ = own + mu("all", "") * behind_;
    const auto asking = weights_.asking(quantity);
    Variable<Real>* through = linear<Real>(
        graph, graph.view(guess_.variable, {B, T, width}),
        weights_.leaf("input_shift." + name + ".down.weight", {kRank, width}, Init::constant(0)), nullptr);
    through = map(MapKind::tanh, Var<Real>{&graph, through}).variable;
    share = share + shaped_as(linear<Real>(graph, through,
                                           weights_.leaf("input_shift." + name + ".up.weight", {width, kRank},
                                                         Init::uniform(0.01)),
                                           nullptr),
                              {B, T, 1, width});
  }
  return graph.view((own + share * behind_).variable, {B, T, width});
}

template <class Real>
Var<Real> LanguageMixer<Real>::of_heads(Var<Real> x) {
  const Size n = x.dim(1), G = x.dim(2);
  if (G == H) return x;
  return view(expand(view(x, {B * n, G, 1, d}), {B * n, G, H / G, d}), {B, n, H, d});
}

template <class Real>
Variable<Real>* LanguageMixer<Real>::in_blocks(const std::string& name) {
  Variable<Real>*& rows = in_blocks_[name];
  if (rows) return rows;
  if (!up_) up_ = weights_.project(x_, "up", H * V);
  if (!convolved_) convolved_ = parts_.convolved_as_told("up", up_, true, this);
  return rows = weights_.blockwise(name == "value" ? up_ : convolved_, name,
                                   narrow<int>(options, "model.blocks"));
}

template <class Real>
Variable<Real>* LanguageMixer<Real>::key_rows(int columns) {
  if (options.get_int("model.blocks") > 0) return in_blocks("key");
  const double start = options.get_double("model.key_start");
  Variable<Real>* seen = seen_by("key");
  if (start == 1) return weights_.project(seen, "key", columns);
  return weights_.project_from(seen, "key", columns, start);
}

template <class Real>
Var<Real> LanguageMixer<Real>::keys() {
  if (!own_keys_) return {};
  if (!keys_) {
    const int G = narrow<int>(key_heads(options), "model.key_groups");
    auto* rows = parts_.mixed("k", key_rows(N * G * d), this);
    keys_ = noted("k", of_heads(parts_.placed(*this, "k", shaped_as(rows, {B, T * N, G, d}))));
  }
  return keys_;
}

template <class Real>
Var<Real> LanguageMixer<Real>::queries() {
  // A convolution or a shift looks at the tokens before, wherever answers are due.
  const int G = narrow<int>(key_heads(options), "model.key_groups");
  const bool blocks = options.get_int("model.blocks") > 0;
  const bool alone = asking_ && !blocks && !parts_.mixes("q") && !options.get_bool("model.inner") &&
                     options.get_string("model.input_shift") == "none" && !sees_convolved("query");
  auto* made =
      blocks ? in_blocks("query") : weights_.project(alone ? asking_ : seen_by("query"), "query", G * d);
  auto* rows = parts_.mixed("q", made, this);
  Var<Real> q = shaped_as(rows, {B, alone ? Q : T, G, d});
  if (asking_ && !alone) q = this->at_queries(q);
  return noted("q", of_heads(parts_.placed(*this, "q", q)));
}

template <class Real>
Var<Real> LanguageMixer<Real>::values() {
  if (values_) return values_;
  Variable<Real>* seen = seen_by("value");
  auto* made =
      options.get_int("model.blocks") > 0 ? in_blocks("value") : weights_.project(seen, "value", N * H * V);
  values_ = shaped_as(parts_.mixed("v", made, this), {B, T * N, H, V});
  if (options.get_bool("model.value_residual")) values_ = with_first(values_, seen);
  return noted("v", values_);
}

template <class Real>
Var<Real> LanguageMixer<Real>::with_first(Var<Real> v, Variable<Real>* seen) {
  if (first_values_ == nullptr) return v;
  if (*first_values_ == nullptr) {
    *first_values_ = v.variable;
    return v;
  }
  const Tensor<Real>& first = (*first_values_)->value;
  if (first.dim(2) * first.dim(3) != H * V)
    throw OptionError(
        "model.value_residual",
        fmt::format("model.value_residual mixes the {} numbers of a value with the {} of the first layer's; "
                    "give all layers that have it as many (model.d_value)",
                    int{H * V}, int{first.dim(2) * first.dim(3)}));
  const int rank = rwkv7_rank(1.7 * d / 64, seen->value.columns());
  const Var<Real> share = sigmoid(this->for_model([&] {
    return projected(seen, "value_residual", T, H * V, V, Init::listed(value_residual_starts(H * V)), rank);
  }));
  return v + share * (shaped_as(*first_values_, {B, T, H, V}) - v);
}

template <class Real>
Var<Real> LanguageMixer<Real>::projected(Variable<Real>* from, const std::string& name, int rows, int columns,
                                         int width, std::optional<Init> bias, const Through& through) {
  this->first_asked(name);
  const auto asking = weights_.asking(this->quantity(name));
  std::string last = name;
  Init weight = weights_.law_of(name, from->value.columns(), columns);
  if (through.rank > 0) {
    const int inputs = from->value.columns();
    from = inner(
        through, graph,
        linear<Real>(graph, from,
                     weights_.leaf(name + ".down.weight", {through.rank, inputs}, weights_.inner_law(inputs)),
                     nullptr));
    last = name + ".up";
    weight = weights_.outer_law(through.rank, columns);
  }
  const Init start = bias.value_or(weights_.bias_law(from->value.columns()));
  return noted("token." + name,
               shaped_as(weights_.project(from, last, columns, start, weight.times(through.start)),
                         {B, rows, H, width}));
}

template <class Real>
std::string LanguageMixer<Real>::called(const std::string& name) const {
  const bool mine = this->quantity(name).empty(),
             is_there = name == "query" || name == "key" || name == "value" || name == "output" ||
                        (name == "out_gate" && options.get_string("model.out_gate") != "none") ||
                        (name == "value_residual" && options.get_bool("model.value_residual")) ||
                        (name.starts_with("shift_") && options.get_string("model.token_shift_law") == "head");
  return is_there && !mine ? name + ".memory" : name;
}

template <class Real>
Var<Real> LanguageMixer<Real>::token(const std::string& asked, int width, std::optional<Init> bias,
                                     Through through, bool per_write) {
  const int n = per_write ? N : 1;
  const std::string name = called(asked);
  if (options.get_int("model.blocks") > 0) {
    if (through.rank > 0)
      throw OptionError(
          "model.blocks",
          fmt::format("model.blocks has gates see queries, keys and values at once, and {} goes through "
                      "fewer numbers; leave model.blocks out",
                      name));
    const int columns = H * width;
    Var<Real> sum = projected(in_blocks("value"), name, T, columns, width, bias, through);
    const auto asking = weights_.asking(this->quantity(name));
    for (const char* what : {"query", "key"}) {
      Variable<Real>* seen = in_blocks(what);
      const int inputs = seen->value.columns();
      const Init start = weights_.law_of(name, inputs, columns).times(through.start);
      auto* weight = weights_.leaf(name + "." + what + ".weight", {columns, inputs}, start);
      sum = sum + shaped_as(linear<Real>(graph, seen, weight, nullptr), {B, T, H, width});
    }
    return sum;
  }
  return projected(seen_by(name, this->quantity(name)), name, T * n, n * H * width, width, bias, through);
}

template <class Real>
Var<Real> LanguageMixer<Real>::asking(const std::string& asked, int width, std::optional<Init> bias,
                                      Through through) {
  const std::string name = called(asked);
  Variable<Real>* from = asking_ ? asking_ : x_;
  if (options.get_string("model.input_shift") != "none" || sees_convolved(name)) {
    const int columns = x_->value.columns();
    Variable<Real>* seen = seen_by(name, this->quantity(name));
    from = graph.view(this->at_queries(shaped_as(seen, {B, T, 1, columns})).variable, {B, Q, columns});
  }
  return projected(from, name, Q, H * width, width, bias, through);
}

template <class Real>
double LanguageMixer<Real>::depth() const {
  const auto layers = options.get_int("model.layers");
  return layers > 1 ? static_cast<double>(layer_) / static_cast<double>(layers - 1) : 0;
}

template <class Real>
double LanguageMixer<Real>::gain_of_depth() const {
  return std::pow((layer_ + 1) / static_cast<double>(options.get_int("model.layers")), 0.7);
}

template <class Real>
Var<Real> LanguageMixer<Real>::parameter(const std::string& name, std::vector<int> dims, Init init) {
  this->first_asked("memory." + name);
  const auto asking = weights_.asking(this->quantity("memory." + name));
  Variable<Real>* p = weights_.leaf("memory." + name, dims, init);
  const int rows = dims[0] == H ? H : dims[0];
  return shaped_as(p, {1, 1, rows, static_cast<int>(p->value.size()) / rows});
}

template <class Real>
Variable<Real>* LanguageMixer<Real>::omega(int m) {
  if (piece() && graph.train() && target_.redraws)
    throw OptionError(
        "memory.favor_redraw",
        "memory.favor_redraw = \"every_forward\" draws the features anew in which the window before has "
        "left its state; give memory.favor_redraw = \"fixed\", or leave task.lanes out");
  const unsigned purpose = (graph.train() ? 0u : 1u) + 2u * static_cast<unsigned>(layer_);
  return favor_features(graph, m, d, target_.feature_seed, target_.feature_draw, purpose);
}

template <class Real>
Variable<Real>* memory_layer(ModelGraph<Real>& target, LayerWeights<Real>& weights, const Options& options,
                             Variable<Real>* x, Variable<Real>* asking, int layer, Captured<Real>* captured,
                             Carried<Real>* carried, Variable<Real>** first_values) {
  LanguageMixer<Real> mixer(target, weights, options, x, asking, layer, captured, carried, first_values);
  const Var<Real> o = mixer.finished(build_memory(memory_of(options), mixer));
  const int width = narrow<int>(options, "model.width");
  Variable<Real>* y =
      weights.back(target.graph.view(o.variable, {mixer.B, mixer.Q, mixer.H * mixer.V}), "output", width);
  weights.check_names();
  return y;
}

#define CROSSTALK_MEMORY_LAYER(Real)                                                            \
  template Variable<Real>* memory_layer(ModelGraph<Real>&, LayerWeights<Real>&, const Options&, \
                                        Variable<Real>*, Variable<Real>*, int, Captured<Real>*, \
                                        Carried<Real>*, Variable<Real>**);
CROSSTALK_MEMORY_LAYER(float)
CROSSTALK_MEMORY_LAYER(double)
template Variable<float>* dropped(ModelGraph<float>&, double, Variable<float>*);
template Variable<double>* dropped(ModelGraph<double>&, double, Variable<double>*);
template class LayerWeights<float>;
template class LayerWeights<double>;
template class LanguageMixer<float>;
template class LanguageMixer<double>;

}  // namespace crosstalk
