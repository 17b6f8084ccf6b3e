// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/language_model.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/base/text/narrow.h"
#include "kernels/conv/short_conv.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/pick.h"
#include "kernels/norm/residual_norm.h"
#include "models/mixers/language_mixer.h"
#include "models/parts/parts.h"
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
      : graph_(graph), norm_(norm_called(options.get_string("model.norm"))), x_(x) {}

  void add(Variable<Real>* branch) { branch_ = branch; }
  Variable<Real>* normed(LayerWeights<Real>& weights, const std::string& name) {
    return normed(weights, name, norm_);
  }
  /// The norm in front of the head, which may be of another kind.
  Variable<Real>* last_normed(LayerWeights<Real>& weights, const std::string& kind) {
    return normed(weights, "norm", kind == "same" ? norm_ : norm_called(kind));
  }
  /// The stream as it stands, without a norm.
  Variable<Real>* plain() {
    if (branch_) {
      const Tensor<Real>& shape = x_->value;
      const auto rows = [&](Variable<Real>* x) {
        return Var<Real>{&graph_, graph_.view(x, {shape.dim(0), shape.dim(1), 1, shape.columns()})};
      };
      x_ = graph_.view((rows(x_) + rows(branch_)).variable, {shape.dim(0), shape.dim(1), shape.columns()});
    }
    branch_ = nullptr;
    return x_;
  }
  /// Goes on with rows at which an answer is due.
  void pick(const BatchTensors& batch) {
    x_ = picked(graph_, x_, batch);
    if (branch_) branch_ = picked(graph_, branch_, batch);
  }
  /// Goes on with these rows.
  void restart(Variable<Real>* x) { x_ = x, branch_ = nullptr; }
  /// The last token's numbers, [B,1,1,width].
  Var<Real> last() const {
    const auto of = [&](Variable<Real>* x) {
      Pick<Real> op;
      op.x = in(graph_.view(x, {x->value.dim(0), x->value.dim(1), 1, x->value.columns()}));
      return Var<Real>{&graph_, out(graph_.add(op).y)};
    };
    return branch_ ? of(x_) + of(branch_) : of(x_);
  }

 private:
  static RowNorm norm_called(const std::string& name) {
    return name == "rms" ? RowNorm::rms : RowNorm::layer;
  }
  Variable<Real>* normed(LayerWeights<Real>& weights, const std::string& name, RowNorm norm) {
    const int width = x_->value.columns();
    ResidualNorm<Real> op;
    op.norm = norm, op.eps = kLayerNormEps;
    op.x = in(x_), op.branch = in(branch_);
    op.gain = in(weights.leaf(name + ".gain", {width}, Init::constant(1)));
    if (norm == RowNorm::layer) op.bias = in(weights.leaf(name + ".bias", {width}, Init::constant(0)));
    const auto& added = graph_.add(op);
    if (branch_) x_ = out(added.sum);
    branch_ = nullptr;
    return out(added.y);
  }

  Graph<Real>& graph_;
  RowNorm norm_;
  Variable<Real>*x_, *branch_ = nullptr;
};

/// 0, 1, 2 .. n - 1, [1,n,1,1].
template <class Real>
Var<Real> counted(Graph<Real>& graph, int n) {
  Constant<Real> one;
  one.y.value = shaped<Real>(graph.replicas(), {1, 1, 1, 1});
  one.number[0] = 1;
  const auto ones = expand(Var<Real>{&graph, out(graph.add(one).y)}, {1, n, 1, 1});
  return -1.0 + scan(0.0 * ones, ones);
}

/// sin and cos of t 10000^(-i / (n / 2 - 1)) for token t and i = 0 .. n / 2 - 1, [1,T,1,n] (fairseq; mad-lab's
/// posemb_sincos_1d).
template <class Real>
Var<Real> wave_positions(Graph<Real>& graph, int T, int n) {
  const int half = n / 2;
  const auto rate =
      exp(-std::log(10000.0) / std::max(half - 1, 1) * view(counted(graph, half), {1, 1, 1, half}));
  Constant<Real> quarter;
  quarter.y.value = shaped<Real>(graph.replicas(), {1, 1, 2, 1});
  quarter.number[1] = 0.5 * std::acos(-1.0);
  const auto turn = expand(counted(graph, T) * rate, {1, T, 2, half});
  return view(map(MapKind::sine, turn + Var<Real>{&graph, out(graph.add(quarter).y)}), {1, T, 1, n});
}

/// The last token's numbers plus the place at which an answer is due, through two layers: the decoder of MAD's compression
/// (Poli et al. 2024, arXiv 2403.17844; AutoEncoder of mad-lab). [B,Q,width]
template <class Real>
Variable<Real>* decoded(const Stream<Real>& stream, LayerWeights<Real>& weights, const Options& options,
                        const BatchTensors& batch, int width) {
  Graph<Real>& g = weights.graph();
  const auto places = expand(wave_positions(g, batch.T, width), {batch.B, batch.T, 1, width});
  const auto last = expand(stream.last(), {batch.B, batch.Q, 1, width});
  const Var<Real> place{&g, picked(g, g.view(places.variable, {batch.B, batch.T, width}), batch)};
  Variable<Real>* x = (last + view(place, {batch.B, batch.Q, 1, width})).variable;
  for (const char* layer : {"1", "2"}) {
    Stream<Real> rows(g, options, g.view(x, {batch.B, batch.Q, width}));
    Variable<Real>* y = weights.project(rows.normed(weights, fmt::format("norm{}", layer)),
                                        fmt::format("layer{}", layer), width, weights.bias_law(width));
    x = map(MapKind::gelu, Var<Real>{&g, g.view(y, {batch.B, batch.Q, 1, width})}).variable;
  }
  return g.view(x, {batch.B, batch.Q, width});
}

}  // namespace

template <class Real>
LanguageModel<Real>::LanguageModel(const Options& options, const Vocabulary& vocabulary, Device device, int R,
                                   Precision products)
    : Model<Real>(options, device, R, products),
      layers_(language_layers(options)),
      tokens_(vocabulary.tokens),
      answers_(vocabulary.values),
      width_(narrow<int>(options, "model.width")) {
  this->read_inits();
  build(1, {1, 1, 1}, true, 1);  // memories ask for their parameters as they are built
  this->allocate("the language model");
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

// Picking as many answers as tokens spares nothing: a GPU's kernels are faster where rows stand as they come.
template <class Real>
bool LanguageModel<Real>::asks_at_all(const BatchTensors& batch) const {
  return device_ == Device::cuda && batch.Q >= batch.T;
}

// Tells whether queries decide what is written, so that every token has one: an option of deltaformer.
static bool writes_by_queries(const Options& options) {
  return options.has("memory.solve_with") && options.get_string("memory.solve_with") == "query";
}

// Tells whether queries of a layer stand only where an answer is due: nothing behind it looks at other tokens.
template <class Real>
bool LanguageModel<Real>::reads_alone(int layer, const BatchTensors& batch) const {
  const LanguageLayer& kind = layers_[static_cast<std::size_t>(layer)];
  if (every_row_ || asks_at_all(batch) || decodes() || layer + 1 != static_cast<int>(layers_.size()) ||
      kind.conv)
    return false;
  const Memory& memory = memory_of(kind.options);
  return !memory.own_token && !writes_by_queries(kind.options) &&
         !(device_ == Device::cuda && memory.read_at_all);
}

template <class Real>
Variable<Real>* LanguageModel<Real>::mixed(ModelGraph<Real>& target, int layer, Variable<Real>* x,
                                           Variable<Real>* asking, Captured<Real>* captured,
                                           Carried<Real>* carried) {
  const LanguageLayer& kind = layers_[static_cast<std::size_t>(layer)];
  LayerWeights<Real> weights(target.graph, parameters_, kind.options, prefix_of(layer));
  if (kind.conv) return base_conv(weights, x, carried);
  return memory_layer<Real>(target, weights, kind.options, x, asking, layer, captured, carried,
                            &first_values_);
}

// conv(x) * (W x + b) + x, every channel convolved on its own and with a bias (Arora et al. 2023, arXiv 2312.04927).
template <class Real>
Variable<Real>* LanguageModel<Real>::base_conv(LayerWeights<Real>& weights, Variable<Real>* x,
                                               Carried<Real>* carried) {
  Graph<Real>& g = weights.graph();
  const int taps = narrow<int>(options_, "model.conv_width");
  const Init start = Init::uniform(1 / std::sqrt(static_cast<double>(taps)));
  Variable<Real>*weight = weights.leaf("conv.weight", {width_, taps}, start),
  *bias = weights.leaf("conv.bias", {width_}, start),
  *gate = weights.project(x, "projection", width_, weights.bias_law(width_));
  if (carried) return carried_conv(g, *carried, "base_conv", x, weight, false, bias, gate);
  ShortConv<Real> op;
  op.x = in(x), op.w = in(weight), op.bias = in(bias), op.gate = in(gate);
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

// gelu(W x + b): what the head of model.readout = "mlp" sees.
template <class Real>
Variable<Real>* LanguageModel<Real>::readout(ModelGraph<Real>& target, LayerWeights<Real>& weights,
                                             Variable<Real>* x) {
  const int rows = x->value.dim(0), length = x->value.dim(1), hidden = hidden_units(options_);
  Variable<Real>* h = weights.project(x, "readout", hidden, weights.bias_law(x->value.columns()));
  const Var<Real> units{&target.graph, target.graph.view(h, {rows, length, 1, hidden})};
  return target.graph.view(map(MapKind::gelu, units).variable, {rows, length, hidden});
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> LanguageModel<Real>::build(int B, SequenceShape shape, bool train,
                                                             int batches, Captured<Real>* captured,
                                                             const Piece& piece) {
  auto result = this->begun(B, shape, train, batches);
  Graph<Real>& g = result->graph;
  make_starts(*result, piece);
  first_values_ = nullptr;
  const bool at_every_token = captured != nullptr || piece.carried != nullptr;

  LayerWeights<Real> whole(g, parameters_, options_, "");
  const double deviation = options_.get_double("model.weight_deviation");
  Variable<Real>* embedding =
      whole.leaf("embedding", {tokens_, width_}, Init::normal(deviation > 0 ? deviation : 1));
  Stream<Real> stream(
      g, options_, dropped(*result, options_.get_double("model.embed_dropout"), embed(*result, embedding)));
  for (int i = 0; i < static_cast<int>(layers_.size()); ++i) {
    LayerWeights<Real> weights(g, parameters_, options_, prefix_of(i));
    Variable<Real>* x = options_.get_bool("model.prenorm") ? stream.normed(weights, "norm") : stream.plain();
    Variable<Real>* asking = nullptr;
    if (!at_every_token && reads_alone(i, result->batch)) {
      asking = picked(g, x, result->batch);
      stream.pick(result->batch);
    }
    stream.add(dropped(*result, options_.get_double("model.dropout"),
                       mixed(*result, i, x, asking, captured && captured->layer == i ? captured : nullptr,
                             piece.carried ? &(*piece.carried)[static_cast<std::size_t>(i)] : nullptr)));
    if (options_.get_string("model.mlp") != "none")
      stream.add(dropped(*result, options_.get_double("model.dropout"),
                         mlp(*result, i, stream.normed(weights, "mlp_norm"))));
  }
  bool picks_late = false;  // the sum of the last layer, and what it was added to, are one after the norm
  if (decodes()) {
    LayerWeights<Real> weights(g, parameters_, options_, "decoder.");
    stream.restart(decoded(stream, weights, options_, result->batch, width_));
  } else if (at_every_token || !reads_alone(static_cast<int>(layers_.size()) - 1, result->batch)) {
    picks_late = asks_at_all(result->batch);
    if (!picks_late) stream.pick(result->batch);
  }
  Variable<Real>* y = stream.last_normed(whole, options_.get_string("model.last_norm"));
  if (picks_late) y = picked(g, y, result->batch);
  if (options_.get_string("model.readout") == "mlp") y = readout(*result, whole, y);
  const int inputs = y->value.columns();
  Variable<Real>* head = options_.get_bool("model.tied_head")
                             ? embedding
                             : whole.leaf("head", {answers_, inputs}, whole.law(inputs));
  if (captured) g.keep(result->output = linear<Real>(g, y, head, nullptr));
  result->loss = cross_entropy(g, y, head, result->batch);
  if (!train && !captured) {
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
  return this->planned(build(B, shape, train, batches));
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> LanguageModel<Real>::capture(SequenceShape shape,
                                                               Captured<Real>& captured) {
  const int count = static_cast<int>(layers_.size());
  if (captured.layer < 0 || captured.layer >= count)
    throw std::out_of_range(
        fmt::format("layer {}: the language model has layers 0 to {}", captured.layer, count - 1));
  if (layers_[static_cast<std::size_t>(captured.layer)].conv)
    throw std::out_of_range(fmt::format("layer {} is base_conv, which is no memory", captured.layer));
  auto result = build(1, shape, false, 1, &captured);
  result->graph.plan();
  return result;
}

template class LanguageModel<float>;
template class LanguageModel<double>;

}  // namespace crosstalk
