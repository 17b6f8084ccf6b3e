// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/inspect.h"

#include <fmt/format.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "models/memory.h"
#include "models/model.h"
#include "models/rules/rule_memory.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

constexpr int kSpectra = 64;  // positions at which singular values are taken, at most

struct Known {
  const char *name, *shape, *meaning;
};
const std::vector<Known>& known_arrays() {
  static const std::vector<Known> all = {
      {"keys", "[T]", "key of each token; of a swap, the first"},
      {"values", "[T]", "value written with it; -1: none"},
      {"second_keys", "[T]", "second key of a swap; -1: none (tasks with swaps)"},
      {"operations", "[T]", "0 pad, 1 write, 2 swap, 3 identity"},
      {"query", "[Q]", "key asked"},
      {"query_position", "[Q]", "number of leading tokens that the read sees"},
      {"answer", "[Q]", "value that is right"},
      {"output", "[Q,V]", "what is read, heads added up; the largest entry is the answer given"},
      {"q", "[Q,H,d]", "queries before phi"},
      {"k", "[M,H,d]", "keys before phi; M = T times writes a token"},
      {"phi_q", "[Q,H,K]", "queries after phi and key_norm"},
      {"phi_k", "[M,H,K]", "keys after phi and key_norm"},
      {"score_key", "[M,H,K]", "what queries are compared with, where it is not phi_k (turned, normalised)"},
      {"score_query", "[Q,H,K]", "and what is compared with it"},
      {"write_key", "[M,H,K]", "the key under which is written, where it is not phi_k"},
      {"write_gain", "[M,H,1]", "what a write is multiplied by, where no input of the memory is that"},
      {"decay", "[T,H,1]", "what the state is multiplied by, where it is not given as log_decay"},
      {"erase_read", "[M,H,K]", "along which is read what is erased, where it is not the key"},
      {"erase_write", "[M,H,K]", "along which is erased, where it is not the key"},
      {"erase_gain", "[M,H,1]", "what erasing is multiplied by, where it is not the write's gain"},
      {"INPUT", "[T,H,.]", "each input of the memory ('crosstalk describe MEMORY'), as the token decides it"},
      {"token.NAME", "[T,H,n]", "each further projection of the token, before its nonlinearity"},
      {"read_weights", "[H,Q,M]",
       "output = sum over writes of weight times value, before read_norm layernorm"},
      {"key_overlap", "[H,M,M]",
       "products of keys as they are written and compared, phi(k_i).phi(k_j): the crosstalk"},
      {"positions", "[P]", "numbers of tokens after which states are given"},
      {"state_S", "[P,H,V,K]", "the state, likewise state_z where reads are divided, and further states"},
      {"spectrum_positions", "[N]", "numbers of tokens after which singular values are given"},
      {"singular_values", "[N,H,min(V,K)]", "of the state S, the largest first"},
      {"effective_rank", "[N,H]",
       "exp(-sum p log p), p = singular values over their sum (Roy and Vetterli 2007); 0 of an empty state"},
      {"half_life", "[T,H,1|K]", "tokens after which half of the state is left: log(1/2) / log(decay)"},
  };
  return all;
}

void fill(const Tensor<std::int32_t>& tensor, const std::int32_t* from) {
  std::copy(from, from + tensor.size(), tensor.at(0));
}

const char* shape_of(Per per) {
  switch (per) {
    case Per::token:
      return "[T,H,1]";
    case Per::key:
      return "[T,H,K]";
    case Per::value:
      return "[.,H,V]";  // a token's or a query's
    case Per::write:
      return "[M,H,1]";
    case Per::head:
      return "[1,H,1]";
    case Per::head_key:
      return "[1,H,K]";
    default:
      return "[.,H,.]";
  }
}

class Inspector {
 public:
  Inspector(const Options& config, const Weights& weights, const InspectRequest& request)
      : config_(config),
        task_(find_task(config.get_string("task.name"))->make(config)),
        buffer_(*task_, request.split) {
    const std::int64_t there = task_->sequences(request.split);
    if (there > 0 && request.sequence >= static_cast<std::uint64_t>(there))
      throw std::out_of_range(
          fmt::format("sequence {}: the split has sequences 0 to {}", request.sequence, there - 1));
    sequence_ = buffer_.draw(seed(), request.sequence);
    const Vocabulary v = task_->vocabulary();
    model_ = make_model<double>(config, v, Device::cpu, 1);
    load_weights(weights, model_->parameters(), Device::cpu, 0);
    const int T = sequence_.shape.T;
    for (const int t : request.positions) {
      if (t < 1 || t > T)
        throw std::out_of_range(fmt::format("position {}: the sequence has positions 1 to {}", t, T));
    }
    positions_ = request.positions.empty() ? std::vector<int>{T} : request.positions;
  }

  Inspection look() {
    add_sequence();
    Look<double> look;
    const auto graph = run(sequence_.shape, sequence_.tokens, look, true);
    const SequenceShape& shape = sequence_.shape;
    add("output", {shape.Q, task_->vocabulary().values}, values_of(graph->output->value));
    for (const auto& [name, value] : look.tensors) add_tensor(name, value->value);
    for (const char* name : {"decay", "log_decay"}) add_half_lives(name);
    add_weights(look);
    add_overlap();
    if (!look.states.empty()) add_states();
    return std::move(result_);
  }

 private:
  std::uint64_t seed() const { return static_cast<std::uint64_t>(config_.get_int("data_seed")); }

  void add(const std::string& name, std::vector<std::int64_t> dims, std::vector<double> data,
           bool integers = false) {
    InspectArray array{name, "", "", std::move(dims), std::move(data), integers};
    for (const Known& known : known_arrays())
      if (name == known.name) array.shape = known.shape, array.meaning = known.meaning;
    result_.arrays.push_back(std::move(array));
  }
  void add_integers(const std::string& name, const std::int32_t* begin, int n, int stride = 1) {
    std::vector<double> data;
    for (int i = 0; i < n; ++i) data.push_back(begin[i * stride]);
    add(name, {n}, std::move(data), true);
  }

  void add_sequence() {
    const auto& [shape, tokens, role, query, position, target, meta] = sequence_;
    add_integers("keys", tokens + channel_key, shape.T, shape.C);
    add_integers("values", tokens + channel_value, shape.T, shape.C);
    if (shape.C > channel_second_key)
      add_integers("second_keys", tokens + channel_second_key, shape.T, shape.C);
    add_integers("operations", role, shape.T);
    add_integers("query", query, shape.Q);
    add_integers("query_position", position, shape.Q);
    add_integers("answer", target, shape.Q);
    for (int t = 0; t < shape.T; ++t) {
      const std::int32_t* token = tokens + t * shape.C;
      result_.token_names.push_back(role[t] == static_cast<int>(Role::write)
                                        ? fmt::format("{}:{}", token[channel_key], token[channel_value])
                                    : role[t] == static_cast<int>(Role::swap)
                                        ? fmt::format("{}-{}", token[channel_key], token[channel_second_key])
                                        : "");
    }
  }

  /// One forward pass over tokens; with the sequence's queries, or one that nobody looks at.
  std::unique_ptr<ModelGraph<double>> run(SequenceShape shape, const std::int32_t* tokens, Look<double>& look,
                                          bool with_queries) {
    auto graph = model_->look(shape, look);
    fill(*graph->batch.tokens, tokens);
    const std::vector<std::int32_t> nothing(static_cast<std::size_t>(shape.Q), 0),
        all(static_cast<std::size_t>(shape.Q), shape.T);
    fill(*graph->batch.query, with_queries ? sequence_.query : nothing.data());
    fill(*graph->batch.position, with_queries ? sequence_.query_position : all.data());
    fill(*graph->batch.target, with_queries ? sequence_.target : nothing.data());
    const std::int32_t seeds[] = {static_cast<std::int32_t>(seed()), static_cast<std::int32_t>(seed() >> 32)};
    fill(*graph->feature_seed, seeds);
    fill(*graph->feature_draw, nothing.data());  // as the test split is read
    Exec exec;
    exec.device = Device::cpu;
    graph->prepare(exec);
    graph->graph.forward(exec);
    return graph;
  }

  static std::vector<double> values_of(const Tensor<double>& tensor) {
    return {tensor.at(0), tensor.at(0) + tensor.size()};
  }
  static std::vector<std::int64_t> dims_of(const Tensor<double>& tensor) {
    return {tensor.dims + (tensor.rank > 1 ? 1 : 0), tensor.dims + tensor.rank};  // without the batch of 1
  }

  void add_tensor(const std::string& name, const Tensor<double>& tensor) {
    add(name, dims_of(tensor), values_of(tensor));
    InspectArray& array = result_.arrays.back();
    const Memory& kind = memory_of(config_);
    for (const MemoryInput& input : kind.inputs) {
      if (input.name != name) continue;
      array.shape = shape_of(input.per);
      array.meaning = fmt::format("input {} of {}", name, kind.name);
    }
    if (name.starts_with("token."))
      array.shape = "[T,H,n]", array.meaning = "projection of the token, before its nonlinearity";
    if (array.meaning.empty()) array.shape = "[.,H,.]", array.meaning = "made by the memory on its way";
    static const std::set<std::string> vectors = {"k", "q",           "phi_k",      "phi_q",      "a",
                                                  "b", "score_query", "erase_read", "erase_write"};
    if (vectors.count(name) == 0 && name.find("key") == std::string::npos && !name.starts_with("token."))
      result_.gates.push_back(name);
  }

  void add_half_lives(const std::string& name) {
    const InspectArray* decay = result_.find(name);
    if (decay == nullptr || result_.find("half_life") != nullptr) return;
    std::vector<double> lives;
    for (const double x : decay->data) lives.push_back(std::log(0.5) / (name == "decay" ? std::log(x) : x));
    add("half_life", std::vector<std::int64_t>(decay->dims), std::move(lives));
  }

  void add_weights(const Look<double>& look) {
    if (look.weights == nullptr) return;
    const Tensor<double>& tensor = look.weights->value;
    std::vector<double> weights = values_of(tensor);
    if (look.eps) {
      const auto M = static_cast<std::size_t>(tensor.columns());
      for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(M)) {
        double sum = *look.eps;
        for (std::size_t i = 0; i < M; ++i) sum += row[static_cast<std::ptrdiff_t>(i)];
        for (std::size_t i = 0; i < M; ++i) row[static_cast<std::ptrdiff_t>(i)] /= sum;
      }
    }
    add("read_weights", dims_of(tensor), std::move(weights));
  }

  void add_overlap() {
    const InspectArray* key = result_.find("write_key");
    if (key == nullptr) key = result_.find("score_key");
    if (key == nullptr) key = result_.find("phi_k");
    if (key == nullptr) return;
    const std::int64_t M = key->dims[0], H = key->dims[1], K = key->dims[2];
    using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using Head = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
    std::vector<double> overlap(static_cast<std::size_t>(H * M * M));
    for (std::int64_t h = 0; h < H; ++h) {
      const Head k(key->data.data() + h * K, M, K, Eigen::OuterStride<>(H * K));
      Eigen::Map<Matrix>(overlap.data() + h * M * M, M, M) = k * k.transpose();
    }
    add("key_overlap", {H, M, M}, std::move(overlap));
  }

  /// The state after t tokens is that at the end of the sequence that ends there.
  void add_states() {
    const int T = sequence_.shape.T;
    std::set<int> spectra;
    for (int i = 1; i <= std::min(T, kSpectra); ++i) spectra.insert(i * T / std::min(T, kSpectra));
    std::set<int> all = spectra;
    all.insert(positions_.begin(), positions_.end());
    std::map<int, std::map<std::string, InspectArray>> states;
    std::vector<double> at, values, ranks;
    std::int64_t H = 0, n = 0;
    for (const int t : all) {
      Look<double> look;
      const auto graph = run({t, sequence_.shape.C, 1}, sequence_.tokens, look, false);
      for (const auto& [name, state] : look.states)
        states[t][name] = {name, "", "", dims_of(state->value), values_of(state->value), false};
      if (spectra.count(t) == 0 || look.states.count("S") == 0) continue;
      const InspectArray& S = states[t]["S"];
      if (S.dims.size() != 3) continue;  // no matrix a head
      H = S.dims[0];
      at.push_back(t);
      for (std::int64_t h = 0; h < H; ++h) n = add_spectrum(S, h, values, ranks);
    }
    std::vector<double> wanted(positions_.begin(), positions_.end());
    const auto P = static_cast<std::int64_t>(positions_.size()), N = static_cast<std::int64_t>(at.size());
    add("positions", {P}, wanted, true);
    for (const auto& [name, first] : states.begin()->second) {
      std::vector<double> data;
      for (const int t : positions_) {
        const std::vector<double>& one = states[t][name].data;
        data.insert(data.end(), one.begin(), one.end());
      }
      std::vector<std::int64_t> dims = first.dims;
      dims.insert(dims.begin(), P);
      add("state_" + name, dims, std::move(data));
      InspectArray& array = result_.arrays.back();
      if (array.meaning.empty()) array.shape = "[P,H,.,.]", array.meaning = fmt::format("the state {}", name);
    }
    if (at.empty()) return;
    add("spectrum_positions", {N}, at, true);
    add("singular_values", {N, H, n}, std::move(values));
    add("effective_rank", {N, H}, std::move(ranks));
  }

  static std::int64_t add_spectrum(const InspectArray& S, std::int64_t h, std::vector<double>& values,
                                   std::vector<double>& ranks) {
    using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const std::int64_t V = S.dims[1], K = S.dims[2];
    const Eigen::BDCSVD<Eigen::MatrixXd> svd(
        Eigen::MatrixXd(Eigen::Map<const Matrix>(S.data.data() + h * V * K, V, K)));
    const Eigen::VectorXd& s = svd.singularValues();
    values.insert(values.end(), s.begin(), s.end());
    double entropy = 0;
    for (const double x : s)
      if (x > 0) entropy -= x / s.sum() * std::log(x / s.sum());
    ranks.push_back(s.sum() > 0 ? std::exp(entropy) : 0);
    return s.size();
  }

  const Options& config_;
  std::unique_ptr<Task> task_;
  SequenceBuffer buffer_;
  SequenceView sequence_;
  std::unique_ptr<Model<double>> model_;
  std::vector<int> positions_;
  Inspection result_;
};

}  // namespace

const InspectArray* Inspection::find(const std::string& name) const {
  const auto at = std::find_if(arrays.begin(), arrays.end(),
                               [&](const InspectArray& array) { return array.name == name; });
  return at == arrays.end() ? nullptr : &*at;
}

Inspection inspect(const Options& config, const Weights& weights, const InspectRequest& request) {
  return Inspector(config, weights, request).look();
}

std::string inspect_reference() {
  std::string text;
  for (const Known& known : known_arrays())
    text += fmt::format("  {:<18} {:<15} {}\n", known.name, known.shape, known.meaning);
  return text;
}

}  // namespace crosstalk
