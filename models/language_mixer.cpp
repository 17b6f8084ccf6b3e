// SPDX-License-Identifier: Apache-2.0
#include "models/language_mixer.h"

#include <cmath>

#include "kernels/base/narrow.h"
#include "models/memories/memory_file.h"

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
                                            Init weight, const Init* bias) {
  const int inputs = x->value.columns();
  return linear(graph_, x, leaf(name + ".weight", {columns, inputs}, weight),
                bias ? leaf(name + ".bias", {columns}, *bias) : nullptr);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project(Variable<Real>* x, const std::string& name, int columns) {
  const Init weight = law(x->value.columns()), bias = bias_law(x->value.columns());
  return project(x, name, columns, weight, bias_ ? &bias : nullptr);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::project(Variable<Real>* x, const std::string& name, int columns,
                                            Init bias) {
  return project(x, name, columns, law(x->value.columns()), &bias);
}

template <class Real>
Variable<Real>* LayerWeights<Real>::back(Variable<Real>* x, const std::string& name, int columns) {
  Init weight = law(x->value.columns());
  if (deviation_ > 0) weight = Init::normal(deviation_ / std::sqrt(2.0 * layers_));
  const Init bias = bias_law(x->value.columns());
  return project(x, name, columns, weight, bias_ ? &bias : nullptr);
}

template <class Real>
LanguageMixer<Real>::LanguageMixer(ModelGraph<Real>& target, LayerWeights<Real>& weights,
                                   const Options& options_, Variable<Real>* x, Variable<Real>* asking,
                                   int layer, Look<Real>* look)
    : Mixer<Real>(target.graph, options_,
                  sizes_of<Real>(options_, target.batch, asking ? target.batch.Q : target.batch.T)),
      target_(target),
      weights_(weights),
      x_(x),
      asking_(asking),
      layer_(layer),
      rate_(memory_named(options_.get_string("memory.name")).keeps_keys
                ? options_.get_double("model.weight_dropout")
                : 0),
      own_keys_(memory_named(options_.get_string("memory.name")).own_keys),
      parts_(graph, options_,
             [this](const std::string& name, const std::vector<int>& dims, Init init) {
               return weights_.leaf(name, dims, init);
             }),
      look_(look) {}

template <class Real>
Var<Real> LanguageMixer<Real>::keys() {
  if (!own_keys_) return {};
  if (!keys_)
    keys_ =
        noted("k", shaped_as(parts_.mixed("k", weights_.project(x_, "key", N * H * d)), {B, T * N, H, d}));
  return keys_;
}

template <class Real>
Var<Real> LanguageMixer<Real>::queries() {
  // A convolution or a shift looks at the tokens before, wherever answers are due.
  const bool alone = asking_ && !parts_.mixes("q");
  auto* rows = parts_.mixed("q", weights_.project(alone ? asking_ : x_, "query", H * d));
  if (alone || !asking_) return noted("q", shaped_as(rows, {B, Q, H, d}));
  return this->at_queries(shaped_as(rows, {B, T, H, d}));
}

template <class Real>
Var<Real> LanguageMixer<Real>::values() {
  if (!values_)
    values_ =
        noted("v", shaped_as(parts_.mixed("v", weights_.project(x_, "value", N * H * V)), {B, T * N, H, V}));
  return values_;
}

template <class Real>
Var<Real> LanguageMixer<Real>::token(const std::string& name, int width, std::optional<Init> bias, int rank,
                                     bool per_write) {
  this->first_asked(name);
  const int n = per_write ? N : 1, columns = n * H * width;
  Variable<Real>* from = x_;
  std::string last = name;
  if (rank > 0) {
    const int inputs = x_->value.columns();
    from = linear<Real>(graph, x_, weights_.leaf(name + ".down.weight", {rank, inputs}, weights_.law(inputs)),
                        nullptr);
    last = name + ".up";
  }
  const Init start = bias.value_or(weights_.bias_law(from->value.columns()));
  return noted("token." + name,
               shaped_as(weights_.project(from, last, columns, start), {B, T * n, H, width}));
}

template <class Real>
Var<Real> LanguageMixer<Real>::asking(const std::string& name, int width, std::optional<Init> bias) {
  if (!asking_) return token(name, width, bias, 0, false);
  this->first_asked(name);
  const Init start = bias.value_or(weights_.bias_law(x_->value.columns()));
  return shaped_as(weights_.project(asking_, name, H * width, start), {B, Q, H, width});
}

template <class Real>
Var<Real> LanguageMixer<Real>::parameter(const std::string& name, std::vector<int> dims, Init init) {
  this->first_asked("memory." + name);
  Variable<Real>* p = weights_.leaf("memory." + name, dims, init);
  const int rows = dims[0] == H ? H : dims[0];
  return shaped_as(p, {1, 1, rows, static_cast<int>(p->value.size()) / rows});
}

template <class Real>
Variable<Real>* LanguageMixer<Real>::omega(int m) {
  const unsigned purpose = (graph.train() ? 0u : 1u) + 2u * static_cast<unsigned>(layer_);
  return favor_features(graph, m, d, target_.feature_seed, target_.feature_draw, purpose);
}

template Variable<float>* dropped(ModelGraph<float>&, double, Variable<float>*);
template Variable<double>* dropped(ModelGraph<double>&, double, Variable<double>*);
template class LayerWeights<float>;
template class LayerWeights<double>;
template class LanguageMixer<float>;
template class LanguageMixer<double>;

}  // namespace crosstalk
