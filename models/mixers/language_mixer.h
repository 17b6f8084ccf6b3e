// A memory inside a layer of the language model: queries, keys, values and gates are projections of the normed tokens, a
// query stands at every token, and values are dense.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernels/base/text/narrow.h"
#include "models/mixers/mixer.h"
#include "models/model.h"
#include "models/parts/carried.h"
#include "models/parts/model_parts.h"

namespace crosstalk {

/// x in training, with numbers dropped at this rate.
template <class Real>
Variable<Real>* dropped(ModelGraph<Real>& target, double rate, Variable<Real>* x);

/// Weights of one layer, named "layers.0.NAME".
template <class Real>
class LayerWeights {
 public:
  LayerWeights(Graph<Real>& graph, ParameterBlock<Real>& parameters, const Options& options,
               std::string prefix)
      : graph_(graph),
        parameters_(parameters),
        deviation_(options.get_double("model.weight_deviation")),
        bias_(options.get_bool("model.bias")),
        biases_(named_biases(options)),
        convolved_(words_of(options.get_string("model.input_conv"))),
        plain_back_(options.get_string("model.out_deviation") == "plain"),
        zero_back_(options.get_string("model.out_deviation") == "zero"),
        start_(options.get_string("model.projection_start")),
        layers_(narrow<int>(options, "model.layers")),
        width_(narrow<int>(options, "model.width")),
        prefix_(std::move(prefix)) {}

  Variable<Real>* leaf(const std::string& name, const std::vector<int>& dims, Init init) {
    return graph_.parameter(parameters_, parameters_.named(prefix_ + name, dims, init));
  }
  /// Start of a weight of `inputs` numbers, and the bias beside it.
  Init law(int inputs) const {
    return deviation_ > 0 ? Init::normal(deviation_)
                          : Init::uniform(1 / std::sqrt(static_cast<double>(inputs)));
  }
  /// The same of a projection that may start in a way of its own (model.projection_start).
  Init law_of(const std::string& name, int inputs, int columns) const;
  /// Starts of the two maps of a projection of low rank.
  Init inner_law(int inputs) const { return start_ == "orthogonal" ? Init::constant(0) : law(inputs); }
  Init outer_law(int rank, int columns) const {
    if (start_ != "orthogonal") return law(rank);
    return Init::orthogonal(0.1 * std::sqrt(std::max(1.0, static_cast<double>(rank) / columns)));
  }
  Init bias_law(int inputs) const { return deviation_ > 0 ? Init::constant(0) : law(inputs); }
  /// Refuses names of model.biases and model.input_conv that no projection of this layer has.
  void check_names() const;
  /// x [R,B,T,n] -> [R,B,T,columns]; a bias where the options say so.
  Variable<Real>* project(Variable<Real>* x, const std::string& name, int columns);
  /// The same with this bias; the weights start as `weight` says, or as law().
  Variable<Real>* project(Variable<Real>* x, const std::string& name, int columns, Init bias,
                          std::optional<Init> weight = {});
  /// A bias where the options say so; the weights start as law() says, times `start`.
  Variable<Real>* project_from(Variable<Real>* x, const std::string& name, int columns, double start);
  /// x [R,B,T,C] by maps of `size` neighbouring channels each, without biases.
  Variable<Real>* blockwise(Variable<Real>* x, const std::string& name, int size);
  /// The same back into the residual stream.
  Variable<Real>* back(Variable<Real>* x, const std::string& name, int columns);

  Graph<Real>& graph() { return graph_; }
  /// ParameterBlock::Asking for a quantity of this layer's memory; "": the model.
  typename ParameterBlock<Real>::Asking asking(const std::string& quantity) {
    return {parameters_, quantity.empty() ? "" : prefix_ + quantity};
  }

 private:
  Variable<Real>* project(Variable<Real>* x, const std::string& name, int columns, Init weight,
                          const Init& bias, bool biased);
  Graph<Real>& graph_;
  ParameterBlock<Real>& parameters_;
  double deviation_;
  bool bias_;
  std::vector<NamedBias> biases_;
  std::vector<std::string> convolved_;    ///< names of model.input_conv
  std::vector<std::string> projections_;  ///< made so far
  bool plain_back_, zero_back_;
  std::string start_;
  int layers_, width_;
  std::string prefix_;
};

template <class Real>
class LanguageMixer final : public Mixer<Real> {
 public:
  using Mixer<Real>::graph, Mixer<Real>::options, Mixer<Real>::B, Mixer<Real>::T, Mixer<Real>::Q;
  using Mixer<Real>::H, Mixer<Real>::d, Mixer<Real>::V, Mixer<Real>::N;

  /// x [R,B,T,width]: tokens. asking [R,B,Q,width]: those of them at which an answer is due, where queries stand at these
  /// alone, or nullptr. `layer`: number of the layer, for its random features. `captured`: filled with its tensors, or nullptr.
  /// `carried`: states that come in and are wanted at the end, or nullptr. `first_values`: those of the first layer of
  /// the model that has model.value_residual, or where it leaves its own; nullptr: the layer stands alone.
  LanguageMixer(ModelGraph<Real>& target, LayerWeights<Real>& weights, const Options& options_,
                Variable<Real>* x, Variable<Real>* asking, int layer, Captured<Real>* captured = nullptr,
                Carried<Real>* carried = nullptr, Variable<Real>** first_values = nullptr);

  Var<Real> keys() override;
  Var<Real> queries() override;
  Var<Real> values() override;
  const Tensor<std::int32_t>* position() const override { return asking_ ? target_.batch.position : nullptr; }
  bool has_input(const std::string&) const override { return true; }
  Var<Real> token(const std::string& name, int width, std::optional<Init> bias, Through through,
                  bool per_write) override;
  Var<Real> input(const std::string& name, const std::function<Var<Real>()>& law) override {
    return noted(shown_as(options, name), this->by_law(name, law));
  }
  Var<Real> asking(const std::string& name, int width, std::optional<Init> bias, Through through) override;
  double depth() const override;
  double earlier() const override { return layer_ / static_cast<double>(options.get_int("model.layers")); }
  int token_size() const override { return x_->value.columns(); }
  Var<Real> parameter(const std::string& name, std::vector<int> dims, Init init) override;
  Variable<Real>* omega(int m) override;
  Var<Real> thinned(Var<Real> weights) override {
    return {&graph, dropped(target_, rate_, weights.variable)};
  }
  void watch_decay(Var<Real> decay, bool logarithm) override {
    target_.decays.push_back({decay.variable, logarithm});
  }
  void note(const std::string& name, Var<Real> x) override {
    if (name == "written_key") written_key_ = x;
    if (captured_) captured_->note(name, x);
  }
  void note_weights(Var<Real> weights, std::optional<double> eps) override {
    if (captured_) captured_->note_weights(weights, eps);
  }
  bool wants_weights() const override { return captured_ != nullptr; }
  Var<Real> start(const std::string& state) override {
    return carried_ ? carried_->start(graph, state) : Var<Real>{};
  }
  bool wants_end() const override { return captured_ != nullptr || carried_ != nullptr; }
  void end(const std::string& state, Var<Real> value) override {
    if (captured_) captured_->note_state(state, value);
    if (carried_) carried_->end(state, value);
  }
  Carried<Real>* piece() override { return carried_ && carried_->parts ? carried_ : nullptr; }
  /// The memory's read, o [B,Q,H,V], normalised and gated.
  Var<Real> finished(Var<Real> o) {
    const bool skips = options.get_string("model.out_skip") == "convolved";
    return parts_.finished(*this, noted("retrieved", o), written_key_,
                           skips ? shaped_as(convolved_, {B, T, H, V}) : Var<Real>{});
  }

 private:
  Var<Real> noted(const std::string& name, Var<Real> x) {
    if (captured_) captured_->note(name, x);
    return x;
  }
  Var<Real> shaped_as(Variable<Real>* x, std::initializer_list<Dimension> dims) {
    return {&graph, graph.view(x, dims)};
  }
  /// Source of the projections of queries, keys and gates, [R,B,T,n].
  Variable<Real>* source();
  /// Tells whether the projection of this name sees a convolution of the input (model.input_conv).
  bool sees_convolved(const std::string& name) const;
  /// Source of the projection of this name, [R,B,T,n]: that, or tokens mixed with the ones before them (model.input_shift, input_conv);
  /// its weights are those of a quantity of the memory, or the model's.
  Variable<Real>* seen_by(const std::string& name, const std::string& quantity = "");
  /// What a projection is called that is asked for: options of the model (biases, starts) name its own.
  std::string called(const std::string& name) const;
  Init shift_start(const std::string& name) const;
  /// Start of the gains of the read's norm (model.out_norm_start = "depth").
  double gain_of_depth() const;
  Var<Real> projected(Variable<Real>* from, const std::string& name, int rows, int columns, int width,
                      std::optional<Init> bias, const Through& through);
  /// Queries, keys or values of all heads in a layer of blocks (model.blocks), [R,B,T,d_value].
  Variable<Real>* in_blocks(const std::string& name);
  /// Rows that keys are made of, before they are shifted and convolved.
  Variable<Real>* key_rows(int columns);
  /// Values v [B,T,H,V] of this layer, which sees `seen`, with those of the first (model.value_residual).
  Var<Real> with_first(Var<Real> v, Variable<Real>* seen);
  /// Queries or keys of the groups, [B,n,G,d], as every head has them.
  Var<Real> of_heads(Var<Real> x);

  ModelGraph<Real>& target_;
  LayerWeights<Real>& weights_;
  Variable<Real>*x_, *asking_, *convolved_ = nullptr, *up_ = nullptr;
  std::map<std::string, Variable<Real>*> in_blocks_;
  int layer_;
  double rate_;  ///< of dropout of read weights
  bool own_keys_;
  ModelParts<Real> parts_;
  Var<Real> keys_, values_, written_key_;
  Var<Real> behind_,
      guess_;  ///< of input_shift: x_{t-1} - x_t, and the mixture by which mixtures are decided
  Captured<Real>* captured_;
  Carried<Real>* carried_;
  Variable<Real>** first_values_;
};

/// A memory in its layer: x [R,B,T,width] -> [R,B,T,width], or [R,B,Q,width] where `asking` is given; as LanguageMixer has it.
template <class Real>
Variable<Real>* memory_layer(ModelGraph<Real>& target, LayerWeights<Real>& weights, const Options& options,
                             Variable<Real>* x, Variable<Real>* asking, int layer,
                             Captured<Real>* captured = nullptr, Carried<Real>* carried = nullptr,
                             Variable<Real>** first_values = nullptr);

}  // namespace crosstalk
