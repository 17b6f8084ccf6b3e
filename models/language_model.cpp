// SPDX-License-Identifier: Apache-2.0
#include "models/language_model.h"

#include <fmt/format.h>

#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/narrow.h"
#include "kernels/conv/gated_conv.h"
#include "kernels/elementwise/pick.h"
#include "kernels/norm/residual_norm.h"
#include "models/build.h"
#include "models/graph/passes.h"
#include "models/language_mixer.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

std::string prefix_of(int layer) { return fmt::format("layers.{}.", layer); }

/// Rows [B,Q,n] at which an answer is due, of x [B,T,n].
template <class Real>
Variable<Real>* picked(Graph<Real>& graph, Variable<Real>* x, const BatchTensors& batch) {
  const int width = x->value.columns();
  Pick<Real> op;
  op.x = in(graph.view(x, {batch.B, batch.T, 1, width})), op.position = ids(batch.position);
  return graph.view(out(graph.add(op).y), {batch.B, batch.Q, width});
}

/// The residual stream: what blocks add is summed where the next norm reads it.
template <class Real>
class Stream {
 public:
  Stream(Graph<Real>& graph, const Options& options, Variable<Real>* x)
      : graph_(graph),
        norm_(options.get_string("model.norm") == "rms" ? RowNorm::rms : RowNorm::layer),
        x_(x) {}

  void add(Variable<Real>* branch) { branch_ = branch; }
  Variable<Real>* normed(LayerWeights<Real>& weights, const std::string& name) {
    const int width = x_->value.columns();
    ResidualNorm<Real> op;
    op.norm = norm_, op.eps = kLayerNormEps;
    op.x = in(x_), op.branch = in(branch_);
    op.gain = in(weights.leaf(name + ".gain", {width}, Init::constant(1)));
    if (norm_ == RowNorm::layer) op.bias = in(weights.leaf(name + ".bias", {width}, Init::constant(0)));
    const auto& added = graph_.add(op);
    if (branch_) x_ = out(added.sum);
    branch_ = nullptr;
    return out(added.y);
  }
  /// From here on rows at which an answer is due.
  void pick(const BatchTensors& batch) {
    x_ = picked(graph_, x_, batch);
    if (branch_) branch_ = picked(graph_, branch_, batch);
  }

 private:
  Graph<Real>& graph_;
  RowNorm norm_;
  Variable<Real>*x_, *branch_ = nullptr;
};

}  // namespace

template <class Real>
LanguageModel<Real>::LanguageModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
                                   Precision products)
    : Model<Real>(device, R),
      options_(options),
      layers_(language_layers(options)),
      tokens_(vocabulary.tokens),
      answers_(vocabulary.values),
      width_(narrow<int>(options, "model.width")),
      device_(device),
      R_(R),
      products_(products) {
  this->read_inits(options_);
  build(1, {1, 1, 1}, true, 1);  // memories ask for their parameters as they are built
  this->allocate("the language model");
}

template <class Real>
void LanguageModel<Real>::make_batch(ModelGraph<Real>& target, int B, SequenceShape shape, int batches) {
  Graph<Real>& g = target.graph;
  BatchTensors& batch = target.batch;
  batch.B = B, batch.T = shape.T, batch.C = shape.C, batch.Q = shape.Q;
  target.batches = batches;
  batch.tokens = g.integers({B, shape.T, shape.C}, batches);
  batch.query = g.integers({B, shape.Q, 1}, batches);
  batch.position = g.integers({B, shape.Q}, batches);
  batch.target = g.integers({B, shape.Q}, batches);
  target.redraws =
      !options_.has("memory.favor_redraw") || options_.get_string("memory.favor_redraw") != "fixed";
  target.feature_seed = g.integers({2});
  target.feature_draw = g.integers({1});
}

template <class Real>
Variable<Real>* LanguageModel<Real>::embed(ModelGraph<Real>& target, Variable<Real>* embedding) {
  Graph<Real>& g = target.graph;
  const BatchTensors& batch = target.batch;
  Buckets lists;
  if (g.train() && g.device() == Device::cuda) {  // the CPU searches as fast
    lists = {batch.tokens, channel_token, g.integers({batch.B * batch.T}, target.batches),
             g.integers({tokens_ + 1}, target.batches)};
    target.buckets.push_back(lists);
  }
  Variable<Real>* positions = nullptr;
  if (options_.get_string("model.positions") != "none") {
    const int longest = narrow<int>(options_, "model.max_length");
    if (batch.T > longest)
      throw OptionError("model.max_length",
                        fmt::format("model.max_length = {} is less than the {} tokens of a sequence; give "
                                    "the longest of training, validation and test",
                                    longest, batch.T));
    LayerWeights<Real> whole(g, parameters_, options_, "");
    const double deviation = options_.get_double("model.weight_deviation");
    positions = whole.leaf("positions", {longest, width_}, Init::normal(deviation > 0 ? deviation : 1));
  }
  return lookup<Real>(g, batch.tokens, {{embedding, channel_token, lists}}, positions);
}

// Whether queries of a layer stand only where an answer is due: nothing behind it looks at other tokens.
template <class Real>
bool LanguageModel<Real>::reads_alone(int layer) const {
  const LanguageLayer& kind = layers_[static_cast<std::size_t>(layer)];
  return !every_row_ && layer + 1 == static_cast<int>(layers_.size()) && !kind.conv &&
         !memory_of(kind.options).own_token;
}

template <class Real>
Variable<Real>* LanguageModel<Real>::mixed(ModelGraph<Real>& target, int layer, Variable<Real>* x,
                                           Variable<Real>* asking, Look<Real>* look) {
  const LanguageLayer& kind = layers_[static_cast<std::size_t>(layer)];
  LayerWeights<Real> weights(target.graph, parameters_, kind.options, prefix_of(layer));
  if (kind.conv) return base_conv(weights, x);
  LanguageMixer<Real> mixer(target, weights, kind.options, x, asking, layer, look);
  const Var<Real> o = mixer.finished(build_memory(memory_of(kind.options), mixer));
  Variable<Real>* y =
      weights.back(target.graph.view(o.variable, {mixer.B, mixer.Q, mixer.H * mixer.V}), "output", width_);
  weights.check_biases();
  return y;
}

// conv(x) * (W x + b) + x, every channel convolved on its own and with a bias (Arora et al. 2023, arXiv 2312.04927).
template <class Real>
Variable<Real>* LanguageModel<Real>::base_conv(LayerWeights<Real>& weights, Variable<Real>* x) {
  Graph<Real>& g = weights.graph();
  const int taps = narrow<int>(options_, "model.conv_width");
  const Init start = Init::uniform(1 / std::sqrt(static_cast<double>(taps)));
  GatedConv<Real> op;
  op.x = in(x), op.w = in(weights.leaf("conv.weight", {width_, taps}, start));
  op.bias = in(weights.leaf("conv.bias", {width_}, start));
  op.gate = in(weights.project(x, "projection", width_, weights.bias_law(width_)));
  return out(g.add(op).y);
}

template <class Real>
Variable<Real>* LanguageModel<Real>::mlp(ModelGraph<Real>& target, int layer, Variable<Real>* x) {
  if (options_.get_string("model.mlp") == "identity") return x;
  LayerWeights<Real> weights(target.graph, parameters_, options_, prefix_of(layer));
  const int rows = x->value.dim(0), length = x->value.dim(1), hidden = hidden_units(options_);
  const auto units = [&](const char* name) {
    return Var<Real>{&target.graph,
                     target.graph.view(weights.project(x, name, hidden), {rows, length, 1, hidden})};
  };
  Var<Real> h = units("mlp.in");
  if (options_.get_string("model.mlp") == "swiglu") {
    h = map(MapKind::silu, units("mlp.gate")) * h;
  } else {
    h = map(MapKind::gelu, h);
  }
  return weights.back(target.graph.view(h.variable, {rows, length, hidden}), "mlp.out", width_);
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> LanguageModel<Real>::build(int B, SequenceShape shape, bool train,
                                                             int batches, Look<Real>* look) {
  auto result = std::make_unique<ModelGraph<Real>>(device_, R_, train);
  Graph<Real>& g = result->graph;
  g.set_products(products_);
  if (this->sharing_) g.set_sharing(*this->sharing_);
  make_batch(*result, B, shape, batches);

  LayerWeights<Real> whole(g, parameters_, options_, "");
  const double deviation = options_.get_double("model.weight_deviation");
  Variable<Real>* embedding =
      whole.leaf("embedding", {tokens_, width_}, Init::normal(deviation > 0 ? deviation : 1));
  Stream<Real> stream(
      g, options_, dropped(*result, options_.get_double("model.embed_dropout"), embed(*result, embedding)));
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    LayerWeights<Real> weights(g, parameters_, options_, prefix_of(i));
    Variable<Real>*x = stream.normed(weights, "norm"), *asking = nullptr;
    if (!look && reads_alone(i)) {
      asking = picked(g, x, result->batch);
      stream.pick(result->batch);
    }
    stream.add(dropped(*result, options_.get_double("model.dropout"),
                       mixed(*result, i, x, asking, look && look->layer == i ? look : nullptr)));
    if (options_.get_string("model.mlp") != "none")
      stream.add(dropped(*result, options_.get_double("model.dropout"),
                         mlp(*result, i, stream.normed(weights, "mlp_norm"))));
  }
  if (look || !reads_alone(static_cast<int>(layers_.size()) - 1)) stream.pick(result->batch);
  Variable<Real>* y = stream.normed(whole, "norm");
  Variable<Real>* head = options_.get_bool("model.tied_head")
                             ? embedding
                             : whole.leaf("head", {answers_, width_}, whole.law(width_));
  if (look) g.keep(result->output = linear<Real>(g, y, head, nullptr));
  result->loss = cross_entropy(g, y, head, result->batch);
  if (!train && !look) {
    g.keep(y);
    result->answer_x = y, result->answer_w = head;
  }
  g.keep(result->loss.query_loss);
  g.keep(result->loss.loss);
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> LanguageModel<Real>::graph(int B, SequenceShape shape, bool train,
                                                             int batches) {
  auto result = build(B, shape, train, batches);
  run_passes(result->graph);
  result->graph.plan();
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> LanguageModel<Real>::look(SequenceShape shape, Look<Real>& look) {
  const int count = static_cast<int>(layers_.size());
  if (look.layer < 0 || look.layer >= count)
    throw std::out_of_range(
        fmt::format("layer {}: the language model has layers 0 to {}", look.layer, count - 1));
  if (layers_[static_cast<std::size_t>(look.layer)].conv)
    throw std::out_of_range(fmt::format("layer {} is base_conv, which is no memory", look.layer));
  auto result = build(1, shape, false, 1, &look);
  result->graph.plan();
  return result;
}

template class LanguageModel<float>;
template class LanguageModel<double>;

}  // namespace crosstalk
