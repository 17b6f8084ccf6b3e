// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/retrieval_model.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/random.h"
#include "kernels/base/text/narrow.h"
#include "kernels/embedding/lookup.h"
#include "models/build.h"
#include "models/examples.h"
#include "models/parts/model_parts.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {

namespace {

MixerSizes sizes_of(const Options& options, const BatchTensors& batch, int values) {
  MixerSizes s;
  const int codes = narrow<int>(options, "model.value_codes");
  s.B = batch.B, s.T = batch.T, s.Q = batch.Q, s.V = codes > 0 ? codes : values;
  s.H = narrow<int>(heads_of(options), "model.heads");
  s.d = narrow<int>(head_d_key(options), "model.d_key");
  s.K = narrow<int>(head_d_dot(options), "memory.d_dot");
  s.N = options.has("memory.writes") ? narrow<int>(options, "memory.writes") : 1;
  return s;
}

/// Keys, queries and gates from tables; values are the tokens' ids.
template <class Real>
class RetrievalMixer final : public Mixer<Real> {
 public:
  using Mixer<Real>::graph, Mixer<Real>::options, Mixer<Real>::B, Mixer<Real>::T, Mixer<Real>::Q;
  using Mixer<Real>::H, Mixer<Real>::d, Mixer<Real>::V, Mixer<Real>::N;
  using Asking = typename ParameterBlock<Real>::Asking;

  RetrievalMixer(ModelGraph<Real>& target, ParameterBlock<Real>& parameters, const Options& options_,
                 const Vocabulary& vocabulary, Captured<Real>* captured)
      : Mixer<Real>(target.graph, options_, sizes_of(options_, target.batch, vocabulary.values)),
        target_(target),
        captured_(captured),
        parameters_(parameters),
        keys_(vocabulary.keys),
        second_key_(vocabulary.second_key),
        embedding_size_(narrow<int>(options_, "model.embedding")),
        inputs_(V + embedding_size_ * (second_key_ ? 2 : 1)),
        init_(memory_of(options_).projection_init),
        parts_(graph, options_, [this](const std::string& name, const std::vector<int>& dims, Init init) {
          return leaf(name, dims, init);
        }) {
    const Memory& memory = memory_of(options_);
    if (vocabulary.numbers > 0) {
      examples_.emplace(graph, target.batch, vocabulary.numbers);
      if (memory.own_queries) queries_ = make_queries();
      if (memory.own_keys)
        key_rows_ = of_example("key_projection", N * H * d, projection(inputs_), fan_in(inputs_));
      return;
    }
    const int values = vocabulary.values;
    embedding_ = options_.get_string("model.key_codes") == "frozen"
                     ? frozen("key_embedding", {keys_, embedding_size_})
                     : leaf("key_embedding", {keys_, embedding_size_}, Init::normal(1));
    if (options_.get_int("model.value_codes") > 0) value_codes_ = frozen("value_codes", {values, V});
    const BatchTensors& batch = target.batch;
    by_key_ = lists(batch.tokens, B * T, channel_key, keys_);
    by_value_ = lists(batch.tokens, B * T, channel_value, values);
    if (second_key_) by_second_ = lists(batch.tokens, B * T, channel_second_key, keys_);
    // The order of nodes is the order in which gradients of the embedding are summed: it stays.
    if (memory.own_queries) queries_ = make_queries();
    if (memory.own_keys)
      key_tables_ = tables("key_projection", N * H * d, projection(inputs_), fan_in(inputs_));
  }

  Var<Real> keys() override {
    if (key_tables_.empty() && !key_rows_) return {};
    auto* rows = key_rows_ ? key_rows_ : lookup<Real>(graph, target_.batch.tokens, key_tables_, nullptr);
    return noted("k", shaped_as(parts_.mixed("k", rows), {B, T * N, H, d}));
  }

  Var<Real> queries() override { return noted("q", queries_); }

  /// The memory's read, normalised and gated.
  Var<Real> finished(Var<Real> o) { return parts_.finished(*this, o); }

  Var<Real> values() override {
    if (examples_) return repeated(examples_->y);
    if (value_codes_) {
      auto* rows =
          lookup<Real>(graph, target_.batch.tokens, {{value_codes_, channel_value, by_value_}}, nullptr);
      return repeated(shaped_as(rows, {B, T, 1, V}));
    }
    OneHot<Real> op;
    op.channel = channel_value;
    op.ids = ids(target_.batch.tokens);
    op.y.value = shaped<Real>(graph.replicas(), {B, T, 1, V});
    return repeated({&graph, out(graph.add(op).y)});
  }

  Var<Real> gather(Var<Real> weights, std::optional<double> eps) override {
    BatchIds batch = target_.batch;
    batch.Q = H * Q;
    Var<Real> a = weights;
    if (N > 1) a = fold(view(a, {B * H * Q, T, N, 1}), {B * H * Q, T, 1, 1});
    auto* y = gather_values(graph, graph.view(a.variable, {B, H * Q, T}), V, batch, eps);
    if (H == 1 || Q == 1) return shaped_as(y, {B, Q, H, V});
    return swap(shaped_as(y, {B, H, Q, V}));
  }

  std::optional<BatchIds> batch() const override {
    if (value_codes_ || examples_) return {};
    return target_.batch;
  }
  /// y' of every query [B,Q,1,1], where tokens are examples.
  Var<Real> asked() const { return examples_->asked_y; }
  /// [R,values,V], or nullptr where values are one-hot.
  Variable<Real>* value_codes() const { return value_codes_; }
  const Tensor<std::int32_t>* position() const override { return target_.batch.position; }

  Var<Real> token(const std::string& name, int width, std::optional<Init> bias, Through through,
                  bool per_write) override {
    this->first_asked(name);
    const Asking of(parameters_, this->quantity(name));
    const int n = per_write ? N : 1, columns = n * H * width;
    const Init start = bias.value_or(fan_in(inputs_));
    Variable<Real>* x = nullptr;
    if (examples_ && through.rank == 0) {
      x = of_example(name, columns, fan_in(inputs_).times(through.start), start);
    } else if (through.rank == 0) {
      x = lookup<Real>(graph, target_.batch.tokens,
                       tables(name, columns, fan_in(inputs_).times(through.start), start), nullptr);
    } else {
      auto* down = examples_
                       ? of_example(name + ".down", through.rank, fan_in(inputs_), {})
                       : lookup<Real>(graph, target_.batch.tokens,
                                      tables(name + ".down", through.rank, fan_in(inputs_), {}), nullptr);
      x = linear(graph, inner(through, graph, down),
                 leaf(name + ".up", {columns, through.rank}, fan_in(through.rank).times(through.start)),
                 leaf(name + ".bias", {columns}, start));
    }
    return noted("token." + name, shaped_as(x, {B, T * n, H, width}));
  }

  Var<Real> input(const std::string& name, const std::function<Var<Real>()>& law) override {
    return noted(shown_as(options, name), this->by_law(name, law));
  }

  Var<Real> asking(const std::string& name, int width, std::optional<Init> bias, Through through) override {
    this->first_asked(name);
    const Asking of(parameters_, this->quantity(name));
    const Init start = fan_in(embedding_size_);
    auto* rows = examples_ ? examples_->asked_x.variable : of_query(embedding_);
    if (through.rank > 0) {
      rows = inner(through, graph,
                   linear<Real>(graph, rows,
                                leaf(name + ".down.query", {through.rank, embedding_size_}, start), nullptr));
      Variable<Real>*up = leaf(name + ".up", {H * width, through.rank}, fan_in(through.rank)),
      *b = leaf(name + ".bias", {H * width}, bias.value_or(fan_in(through.rank)));
      return noted("token." + name, shaped_as(linear(graph, rows, up, b), {B, Q, H, width}));
    }
    Variable<Real>* weight = leaf(name + ".query", {H * width, embedding_size_}, start);
    Variable<Real>* shift = leaf(name + ".bias", {H * width}, bias.value_or(start));
    return noted("token." + name, shaped_as(linear(graph, rows, weight, shift), {B, Q, H, width}));
  }

  Var<Real> parameter(const std::string& name, std::vector<int> dims, Init init) override {
    this->first_asked("memory." + name);
    const Asking of(parameters_, this->quantity("memory." + name));
    Variable<Real>* p = leaf("memory." + name, dims, init);
    const int rows = dims[0] == H ? H : dims[0];
    return shaped_as(p, {1, 1, rows, static_cast<int>(p->value.size()) / rows});
  }

  void watch_decay(Var<Real> decay, bool logarithm) override {
    target_.decays.push_back({decay.variable, logarithm});
  }

  Variable<Real>* omega(int m) override {
    return favor_features(graph, m, d, target_.feature_seed, target_.feature_draw, graph.train() ? 0u : 1u);
  }

  double scale() const override { return 1 / std::sqrt(static_cast<double>(d)); }

  void note(const std::string& name, Var<Real> x) override {
    if (captured_) captured_->note(name, x);
  }
  void note_weights(Var<Real> weights, std::optional<double> eps) override {
    if (captured_) captured_->note_weights(weights, eps);
  }
  bool wants_end() const override { return captured_ != nullptr; }
  void end(const std::string& state, Var<Real> value) override {
    if (captured_) captured_->note_state(state, value);
  }

 private:
  Var<Real> noted(const std::string& name, Var<Real> x) {
    note(name, x);
    return x;
  }
  static Init fan_in(int n) { return Init::uniform(1 / std::sqrt(static_cast<double>(n))); }
  Init projection(int n) const {
    return init_ == ProjectionInit::xavier ? Init::uniform(std::sqrt(6.0 / (n + H * d))) : fan_in(H * d);
  }
  Variable<Real>* leaf(const std::string& name, const std::vector<int>& dims, Init init) {
    return graph.parameter(parameters_, parameters_.named(name, dims, init));
  }
  /// Random rows of length 1 that no training moves.
  Variable<Real>* frozen(const std::string& name, const std::vector<int>& dims) {
    Variable<Real>* rows = leaf(name, dims, Init::normal(1));
    rows->needs_gradient = false;
    return unit(Var<Real>{&graph, rows}).variable;
  }
  Var<Real> shaped_as(Variable<Real>* x, std::initializer_list<Dimension> dims) {
    return {&graph, graph.view(x, dims)};
  }

  Var<Real> make_queries() {
    Variable<Real>* weight =
        leaf("query_projection.key", {H * d, embedding_size_}, projection(embedding_size_));
    Variable<Real>* bias = leaf("query_projection.bias", {H * d}, fan_in(embedding_size_));
    Variable<Real>* q = nullptr;
    if (examples_) {
      q = linear(graph, examples_->asked_x.variable, weight, bias);
    } else if (static_cast<std::int64_t>(B) * Q >=
               keys_) {  // a table of all keys is smaller than all queries
      auto* table = linear(graph, embedding_, weight, bias);
      q = of_query(table);
    } else {
      q = linear(graph, of_query(embedding_), weight, bias);
    }
    return shaped_as(q, {B, Q, H, d});
  }

  /// Repeats what is one a token, [B,T,1,V], once for every write and head.
  Var<Real> repeated(Var<Real> x) { return view(expand(x, {B, T, N * H, V}), {B, T * N, H, V}); }

  /// A projection of examples [x; y].
  Variable<Real>* of_example(const std::string& name, int columns, Init weights, std::optional<Init> bias) {
    Variable<Real>*weight = leaf(name + ".example", {columns, inputs_}, weights),
    *shift = bias ? leaf(name + ".bias", {columns}, *bias) : nullptr;
    return linear(graph, examples_->xy.variable, weight, shift);
  }

  /// The row of a table [R,keys,n] for each query.
  Variable<Real>* of_query(Variable<Real>* table) {
    const auto* query = target_.batch.query;
    if (!by_query_.ids && B * Q > kFewIds) by_query_ = lists(query, B * Q, 0, keys_);
    return lookup<Real>(graph, query, {{table, 0, by_query_}}, nullptr);
  }

  Buckets lists(const Tensor<std::int32_t>* from, int count, int channel, int rows) {
    if (!graph.train() || graph.device() == Device::cpu) return {};  // the CPU searches as fast
    target_.buckets.push_back({from, channel, graph.integers({count}, target_.batches),
                               graph.integers({rows + 1}, target_.batches)});
    return target_.buckets.back();
  }

  // A projection of the token as tables of one row a key and one row a value. Every token has a key, so the
  // bias stands in the key's table: its gradient is then a sum over keys, not over tokens.
  std::vector<Table<Real>> tables(const std::string& name, int columns, Init weights,
                                  std::optional<Init> bias) {
    Variable<Real>* weight = leaf(name + ".key", {columns, embedding_size_}, weights);
    Variable<Real>* value = value_codes_ ? linear<Real>(graph, value_codes_,
                                                        leaf(name + ".value", {columns, V}, weights), nullptr)
                                         : leaf(name + ".value", {V, columns}, weights);
    Variable<Real>* shift = bias ? leaf(name + ".bias", {columns}, *bias) : nullptr;
    Variable<Real>* second =
        second_key_ ? leaf(name + ".second_key", {columns, embedding_size_}, weights) : nullptr;
    std::vector<Table<Real>> all = {{linear(graph, embedding_, weight, shift), channel_key, by_key_},
                                    {value, channel_value, by_value_}};
    if (second)
      all.push_back({linear<Real>(graph, embedding_, second, nullptr), channel_second_key, by_second_});
    return all;
  }

  ModelGraph<Real>& target_;
  Captured<Real>* captured_;
  ParameterBlock<Real>& parameters_;
  int keys_;
  bool second_key_;
  int embedding_size_, inputs_;
  ProjectionInit init_;
  ModelParts<Real> parts_;
  Variable<Real>*embedding_ = nullptr, *value_codes_ = nullptr, *key_rows_ = nullptr;
  std::optional<Examples<Real>> examples_;
  Var<Real> queries_;
  Buckets by_key_, by_value_, by_second_, by_query_;
  std::vector<Table<Real>> key_tables_;
};

}  // namespace

template <class Real>
RetrievalModel<Real>::RetrievalModel(const Options& options, const Vocabulary& vocabulary, Device device,
                                     int R, Precision products)
    : Model<Real>(options, device, R, products),
      vocabulary_(vocabulary),
      value_codes_(narrow<int>(options, "model.value_codes")) {
  this->read_inits();
  build(1, {1, channels(), 1}, true, 1);  // the memory asks for its parameters as it is built
  this->allocate(options_.get_string("memory.name"));
}

template <class Real>
int RetrievalModel<Real>::channels() const {
  return channels_of(vocabulary_);
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> RetrievalModel<Real>::build(int B, SequenceShape shape, bool train,
                                                              int batches, Captured<Real>* captured) {
  auto result = this->begun(B, shape, train, batches);
  Graph<Real>& g = result->graph;
  RetrievalMixer<Real> mixer(*result, parameters_, options_, vocabulary_, captured);
  const Var<Real> o = mixer.finished(build_memory(memory_of(options_), mixer));
  const int size = value_codes_ > 0 ? value_codes_ : vocabulary_.values;
  const Var<Real> read = fold(o, {B, shape.Q, 1, size});
  Variable<Real>* y = g.view(read.variable, {B, shape.Q, size});
  if (vocabulary_.numbers > 0) {
    g.keep(result->output = y);
    result->loss = example_loss(g, read, mixer.asked(), result->batch);
  } else if (value_codes_ == 0) {
    g.keep(result->output = y);
    if (!train) result->answer_x = y;
    result->loss = squared_loss(g, y, result->batch);
  } else {
    const Init start = Init::uniform(1 / std::sqrt(static_cast<double>(size)));
    y = linear(g, y, g.parameter(parameters_, parameters_.named("output_projection", {size, size}, start)),
               g.parameter(parameters_, parameters_.named("output_projection.bias", {size}, start)));
    if (captured) g.keep(result->output = linear<Real>(g, y, mixer.value_codes(), nullptr));
    if (!train) result->answer_x = y, result->answer_w = mixer.value_codes();
    result->loss = cross_entropy(g, y, mixer.value_codes(), result->batch);
  }
  g.keep(result->loss.query_loss);
  g.keep(result->loss.loss);
  return result;
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> RetrievalModel<Real>::graph(int B, SequenceShape shape, bool train,
                                                              int batches) {
  return this->planned(build(B, shape, train, batches));
}

template <class Real>
std::int64_t RetrievalModel<Real>::trainable() const {
  std::int64_t all = parameters_.trainable();
  for (int i = 0; i < parameters_.count(); ++i) {
    const std::string& name = parameters_.name(i);
    if (name == "value_codes" ||
        (name == "key_embedding" && options_.get_string("model.key_codes") == "frozen"))
      all -= parameters_.value(i).size();
  }
  return all;
}

template <class Real>
std::vector<double> RetrievalModel<Real>::half_lives(int draws) {
  constexpr int kTokens = 32;
  constexpr std::int64_t kMany = 1 << 19;  // numbers of a draw: then those of one sequence do
  const int C = channels(), numbers = vocabulary_.numbers;
  int sequences = 8;
  auto graph = build(sequences, {kTokens, C, 1}, false, 1);
  if (graph->decays.empty()) return {};
  if (graph->decays[0].variable->value.size() > kMany)
    graph = build(sequences = 1, {kTokens, C, 1}, false, 1);
  for (const auto& decay : graph->decays) graph->graph.keep(decay.variable->root());
  graph->graph.plan();
  for (int b = 0; b < sequences; ++b) graph->batch.position->at(0)[b] = kTokens;
  std::vector<double> lives;
  for (int draw = 0; draw < draws; ++draw) {
    parameters_.initialise(0, static_cast<std::uint64_t>(draw));
    RandomStream random(static_cast<std::uint64_t>(draw), RandomDomain::initialisation, 0);
    std::int32_t* token = graph->batch.tokens->at(0);
    for (int i = 0; i < sequences * kTokens * C; ++i) {
      const double u = random.uniform();
      const int most = i % C == channel_value ? vocabulary_.values : vocabulary_.keys;
      token[i] = static_cast<std::int32_t>(numbers > 0 ? normal_from_uniform(u) / kNumberUnit : u * most);
    }
    graph->graph.forward({});
    for (const auto& [variable, logarithm] : graph->decays) {
      const Tensor<Real> x = variable->value;
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const double g = logarithm ? x.at(0)[i] : std::log(static_cast<double>(x.at(0)[i]));
        lives.push_back(std::log(2.0) / std::max(-g, 1e-30));
      }
    }
  }
  const auto quantile = [&](double share) {
    const auto at =
        lives.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(lives.size() - 1));
    std::nth_element(lives.begin(), at, lives.end());
    return *at;
  };
  return {quantile(0.05), quantile(0.5), quantile(0.95)};
}

template <class Real>
std::unique_ptr<ModelGraph<Real>> RetrievalModel<Real>::capture(SequenceShape shape,
                                                                Captured<Real>& captured) {
  auto result = build(1, shape, false, 1, &captured);
  result->graph.plan();
  return result;
}

template class RetrievalModel<float>;
template class RetrievalModel<double>;

}  // namespace crosstalk
