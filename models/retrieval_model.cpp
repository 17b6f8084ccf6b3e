// SPDX-License-Identifier: Apache-2.0
#include "models/retrieval_model.h"

#include <cmath>
#include <stdexcept>

#include "kernels/base/error.h"
#include "kernels/ops/lookup.h"
#include "models/memories/parts.h"

namespace crosstalk {

const std::vector<OptionSpec>& model_options() {
  static const std::vector<OptionSpec> options = {
      {"name", std::string("retrieval"), "model around the memory", 0, 0, {"retrieval"}},
      {"d_key", std::int64_t{64}, "dimension of keys and queries before phi", 1, 4096},
      {"embedding", std::int64_t{0}, "width of key embeddings (0: int(1.1 (keys + values)))", 0, 1 << 20},
  };
  return options;
}

void resolve_model(Options& options, std::int64_t keys, std::int64_t values) {
  if (options.get_int("model.embedding") == 0) {
    options.set("model.embedding", static_cast<std::int64_t>(static_cast<double>(keys + values) * 1.1));
  }
}

template <class Real>
void RetrievalGraph<Real>::select(int u) {
  const std::int64_t shift = u - selected_, queries = shift * batch.B * batch.Q;
  batch.tokens->data += shift * batch.B * batch.T * batch.C;
  batch.query->data += queries;
  batch.position->data += queries;
  batch.target->data += queries;
  for (const Buckets& lists : buckets) {
    lists.order->data += shift * lists.order->size();
    lists.start->data += shift * lists.start->size();
  }
  selected_ = u;
}

template <class Real>
void RetrievalGraph<Real>::prepare(const Exec& exec) const {
  for (const Buckets& lists : buckets)
    run(exec, BucketIds<Real>{*batch.tokens, lists.channel, batches, *lists.order, *lists.start});
}

template <class Real>
RetrievalModel<Real>::RetrievalModel(const Options& options, int keys, int values, bool second_key,
                                     Device device, int R, Precision products)
    : options_(options),
      keys_(keys),
      values_(values),
      d_key_(static_cast<int>(options.get_int("model.d_key"))),
      second_key_(second_key),
      device_(device),
      R_(R),
      products_(products),
      parameters_(device, R) {
  const MemoryKind* memory = find_memory(options.get_string("memory.name"));
  if (!memory)
    throw std::logic_error("[retrieval_model] unknown memory " + options.get_string("memory.name"));
  const int e = static_cast<int>(options.get_int("model.embedding"));
  const int inputs = values + e * (second_key ? 2 : 1);  // fan-in of the token's projections
  const auto uniform = [](double a) { return Init{Init::Kind::uniform, a}; };
  const auto fan_in = [&](int n) { return uniform(1 / std::sqrt(static_cast<double>(n))); };
  const auto projection = [&](int n) {
    return memory->projection_init == ProjectionInit::xavier ? uniform(std::sqrt(6.0 / (n + d_key_)))
                                                             : fan_in(d_key_);
  };
  embedding_ = parameters_.add("key_embedding", {keys, e}, {Init::Kind::normal, 1});
  key_weight_ = parameters_.add("key_projection.key", {d_key_, e}, projection(inputs));
  key_value_ = parameters_.add("key_projection.value", {values, d_key_}, projection(inputs));
  key_bias_ = parameters_.add("key_projection.bias", {d_key_}, fan_in(inputs));
  query_weight_ = parameters_.add("query_projection.key", {d_key_, e}, projection(e));
  query_bias_ = parameters_.add("query_projection.bias", {d_key_}, fan_in(e));
  if (second_key)
    key_second_weight_ = parameters_.add("key_projection.second_key", {d_key_, e}, projection(inputs));
  if (memory->gated) {
    gate_weight_ = parameters_.add("gate.key", {1, e}, fan_in(inputs));
    gate_value_ = parameters_.add("gate.value", {values, 1}, fan_in(inputs));
    gate_bias_ = parameters_.add("gate.bias", {1}, fan_in(inputs));
    if (second_key) gate_second_weight_ = parameters_.add("gate.second_key", {1, e}, fan_in(inputs));
  }
  parameters_.allocate();
}

template <class Real>
std::unique_ptr<RetrievalGraph<Real>> RetrievalModel<Real>::graph(int B, SequenceShape shape, bool train,
                                                                  int batches) {
  auto result = std::make_unique<RetrievalGraph<Real>>(device_, R_, train);
  Graph<Real>& g = result->graph;
  g.set_products(products_);
  BatchTensors& batch = result->batch;
  batch.B = B;
  batch.T = shape.T;
  batch.C = shape.C;
  batch.Q = shape.Q;
  result->batches = batches;
  batch.tokens = g.integers({B, shape.T, shape.C}, batches);
  batch.query = g.integers({B, shape.Q, 1}, batches);
  batch.position = g.integers({B, shape.Q}, batches);
  batch.target = g.integers({B, shape.Q}, batches);
  result->feature_seed = g.integers({2});
  result->feature_draw = g.integers({1});

  const auto parameter = [&](int i) { return g.parameter(parameters_, i); };
  auto* embedding = parameter(embedding_);
  // Projection of the token, from tables of one row a key and one row a value. Every token has a key, so the
  // bias stands in the key's table: its gradient is then a sum over keys, not over tokens.
  const auto bucket_ids = [&](int channel, int rows) -> Buckets {
    if (!train || device_ == Device::cpu) return {};  // the CPU searches as fast
    result->buckets.push_back({channel, g.integers({B * shape.T}, batches), g.integers({rows + 1}, batches)});
    return result->buckets.back();
  };
  const Buckets by_key = bucket_ids(channel_key, keys_), by_value = bucket_ids(channel_value, values_),
                by_second = second_key_ ? bucket_ids(channel_second_key, keys_) : Buckets{};
  const auto tables_of = [&](int weight, int second, int value, int bias) {
    std::vector<Table<Real>> tables = {
        {linear(g, embedding, parameter(weight), parameter(bias)), channel_key, by_key},
        {parameter(value), channel_value, by_value}};
    if (second >= 0)
      tables.push_back(
          {linear<Real>(g, embedding, parameter(second), nullptr), channel_second_key, by_second});
    return tables;
  };
  Variable<Real>* query = nullptr;
  if (static_cast<std::int64_t>(B) * shape.Q >= keys_) {  // a table of all keys is smaller than all queries
    auto* table = linear(g, embedding, parameter(query_weight_), parameter(query_bias_));
    query = lookup<Real>(g, batch.query, {{table, 0}}, nullptr);
  } else {
    auto* rows = lookup<Real>(g, batch.query, {{embedding, 0}}, nullptr);
    query = linear(g, rows, parameter(query_weight_), parameter(query_bias_));
  }
  ReadContext<Real> context{
      g,
      options_,
      batch,
      tables_of(key_weight_, key_second_weight_, key_value_, key_bias_),
      query,
      values_,
      [&] {
        return lookup<Real>(g, batch.tokens,
                            tables_of(gate_weight_, gate_second_weight_, gate_value_, gate_bias_), nullptr);
      },
      result->feature_seed,
      result->feature_draw,
      train ? 0u : 1u,
      device_ == Device::cuda};
  const MemoryKind* memory = find_memory(options_.get_string("memory.name"));
  if constexpr (std::is_same_v<Real, float>) {
    result->output = memory->build_float(context);
  } else {
    result->output = memory->build_double(context);
  }
  result->loss = squared_loss(g, result->output, batch);
  g.plan();
  return result;
}

template struct RetrievalGraph<float>;
template struct RetrievalGraph<double>;
template class RetrievalModel<float>;
template class RetrievalModel<double>;

}  // namespace crosstalk
