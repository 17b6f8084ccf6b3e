// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

#include "experiments/inspect/known_arrays.h"
#include "models/memory.h"
#include "models/mixers/language_options.h"
#include "models/model.h"
#include "models/parts/parts.h"
#include "models/rules/rule_memory.h"
#include "tasks/given_files.h"
#include "tasks/sequence_buffer.h"

namespace crosstalk {
namespace {

constexpr int kSpectra = 64;  // positions at which singular values are taken, at most

void fill(const Tensor<std::int32_t>& tensor, const std::int32_t* from) {
  std::copy(from, from + tensor.size(), tensor.at(0));
}

class Inspector {
 public:
  Inspector(const Options& config, const Weights& weights, const InspectRequest& request)
      : config_(config),
        layer_options_(config),
        language_(is_language(config)),
        task_(find_task(config.get_string("task.name"))->make(config)),
        buffer_(*task_, request.split) {
    const std::int64_t there = task_->sequences(request.split);
    if (there > 0 && request.sequence >= static_cast<std::uint64_t>(there))
      throw std::out_of_range(
          fmt::format("sequence {}: the split has sequences 0 to {}", request.sequence, there - 1));
    sequence_ = buffer_.draw(seed(), request.sequence);
    const Vocabulary v = task_->vocabulary();
    choose_layer(request.layer);
    model_ = make_model<double>(config, v, Device::cpu, 1);
    load_weights(weights, model_->parameters(), Device::cpu, 0);
    const int T = sequence_.shape.T;
    for (const int t : request.positions) {
      if (t < 1 || t > T)
        throw std::out_of_range(fmt::format("position {}: the sequence has positions 1 to {}", t, T));
    }
    positions_ = request.positions.empty() ? std::vector<int>{T} : request.positions;
    heads_ = heads_of(layer_options_);
    if (request.head && (*request.head < 0 || *request.head >= heads_))
      throw std::out_of_range(
          heads_ == 1
              ? fmt::format("head {}: {} has one head, 0", *request.head, memory().name)
              : fmt::format("head {}: {} has heads 0 to {}", *request.head, memory().name, heads_ - 1));
    head_ = request.head;
  }

  Inspection result() {
    require_unchanged(*task_);
    add_sequence();
    Captured<double> captured = layer();
    const auto graph = run(sequence_.shape, sequence_.tokens, captured, true);
    const SequenceShape& shape = sequence_.shape;
    add("output", {shape.Q, task_->vocabulary().values}, values_of(graph->output->value));
    for (const auto& [name, value] : captured.tensors) add_tensor(name, value->value);
    for (const char* name : {"decay", "log_decay"}) add_half_lives(name);
    add_weights(captured);
    add_overlap();
    if (!captured.states.empty()) add_states();
    if (head_) keep_head();
    return std::move(result_);
  }

 private:
  /// The inspected layer of a language model: the requested one, or the first with a memory.
  void choose_layer(std::optional<int> wanted) {
    if (!language_) {
      if (wanted) throw std::out_of_range("only a language model has layers; this model is one memory");
      return;
    }
    const std::vector<LanguageLayer> layers = language_layers(config_);
    std::vector<std::string> there;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!layers[i].conv)
        there.push_back(fmt::format("{} ({})", i, layers[i].options.get_string("memory.name")));
      const bool chosen = wanted ? static_cast<int>(i) == *wanted : there.size() == 1;
      if (layers[i].conv || !chosen || result_.layer >= 0) continue;
      result_.layer = static_cast<int>(i);
      layer_options_ = layers[i].options;
    }
    if (result_.layer >= 0) return;
    const bool conv = *wanted >= 0 && *wanted < std::ssize(layers);
    throw std::out_of_range(fmt::format("layer {}: {}; layers with a memory: {}", *wanted,
                                        conv ? "base_conv is no memory" : "there is none",
                                        fmt::join(there, ", ")));
  }
  Captured<double> layer() const {
    Captured<double> captured;
    captured.layer = result_.layer;
    return captured;
  }
  const Memory& memory() const { return memory_of(layer_options_); }

  /// Leaves of every array one head, where its shape has heads.
  void keep_head() {
    for (InspectArray& array : result_.arrays) {
      std::size_t axis = 0;
      bool found = false;
      for (std::size_t at = 1; at < array.shape.size() && !found; ++at) {
        found = array.shape[at] == 'H';
        if (array.shape[at] == ',') ++axis;
      }
      if (found && axis < array.dims.size() && array.dims[axis] == heads_) keep_head(array, axis);
    }
  }
  void keep_head(InspectArray& array, std::size_t axis) const {
    std::int64_t inner = 1;
    for (std::size_t i = axis + 1; i < array.dims.size(); ++i) inner *= array.dims[i];
    std::vector<double> kept;
    for (auto row = array.data.begin(); row != array.data.end(); row += heads_ * inner)
      kept.insert(kept.end(), row + *head_ * inner, row + (*head_ + 1) * inner);
    array.dims[axis] = 1;
    array.data = std::move(kept);
  }

  std::uint64_t seed() const { return static_cast<std::uint64_t>(config_.get_int("data_seed")); }

  void add(const std::string& name, std::vector<std::int64_t> dims, std::vector<double> data,
           bool integers = false) {
    const auto& [shape, meaning] = meaning_of(name, memory(), language_);
    result_.arrays.push_back({name, shape, meaning, std::move(dims), std::move(data), integers});
  }
  void add_integers(const std::string& name, const std::int32_t* begin, int n, int stride = 1) {
    std::vector<double> data;
    for (int i = 0; i < n; ++i) data.push_back(begin[i * stride]);
    add(name, {n}, std::move(data), true);
  }

  void add_sequence() {
    const auto& [shape, tokens, role, query, position, target, meta] = sequence_;
    if (language_) {
      add_integers("tokens", tokens, shape.T);
    } else if (task_->vocabulary().numbers > 0) {
      add_examples();
    } else {
      add_keys();
    }
    const bool ids = task_->vocabulary().numbers == 0;
    add_integers("operations", role, shape.T);
    if (ids) add_integers("query", query, shape.Q);
    add_integers("query_position", position, shape.Q);
    if (ids) add_integers("answer", target, shape.Q);
    for (int t = 0; language_ && t < shape.T; ++t)
      result_.token_names.push_back(fmt::format("{}", tokens[t]));
  }
  void add_keys() {
    const auto& [shape, tokens, role, query, position, target, meta] = sequence_;
    add_integers("keys", tokens + channel_key, shape.T, shape.C);
    add_integers("values", tokens + channel_value, shape.T, shape.C);
    if (shape.C > channel_second_key)
      add_integers("second_keys", tokens + channel_second_key, shape.T, shape.C);
    for (int t = 0; t < shape.T; ++t) {
      const std::int32_t* token = tokens + t * shape.C;
      result_.token_names.push_back(role[t] == static_cast<int>(Role::write)
                                        ? fmt::format("{}:{}", token[channel_key], token[channel_value])
                                    : role[t] == static_cast<int>(Role::swap)
                                        ? fmt::format("{}-{}", token[channel_key], token[channel_second_key])
                                        : "");
    }
  }

  void add_examples() {
    const int n = task_->vocabulary().numbers;
    const auto part = [&](const char* name, int rows, int first, int count) {
      std::vector<double> data;
      for (int t = 0; t < rows; ++t)
        for (int c = first; c < first + count; ++c)
          data.push_back(kNumberUnit * sequence_.tokens[t * sequence_.shape.C + c]);
      add(name, {rows, count}, std::move(data));
    };
    part("inputs", sequence_.shape.T, 0, n), part("outputs", sequence_.shape.T, n, 1);
    part("query_inputs", sequence_.shape.Q, n + 1, n), part("query_outputs", sequence_.shape.Q, 2 * n + 1, 1);
  }

  /// One forward pass over tokens; with the sequence's queries, or a dummy query.
  std::unique_ptr<ModelGraph<double>> run(SequenceShape shape, const std::int32_t* tokens,
                                          Captured<double>& captured, bool with_queries) {
    auto graph = model_->capture(shape, captured);
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
    if (!is_vector(name)) result_.gates.push_back(name);
  }

  void add_half_lives(const std::string& name) {
    const InspectArray* decay = result_.find(name);
    if (decay == nullptr || result_.find("half_life") != nullptr) return;
    std::vector<double> lives;
    for (const double x : decay->data) lives.push_back(std::log(0.5) / (name == "decay" ? std::log(x) : x));
    add("half_life", std::vector<std::int64_t>(decay->dims), std::move(lives));
  }

  void add_weights(const Captured<double>& captured) {
    if (captured.weights == nullptr) return;
    const Tensor<double>& tensor = captured.weights->value;
    std::vector<double> weights = values_of(tensor);
    if (captured.eps) {
      const auto M = static_cast<std::size_t>(tensor.columns());
      for (auto row = weights.begin(); row != weights.end(); row += static_cast<std::ptrdiff_t>(M)) {
        double sum = *captured.eps;
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
      Captured<double> captured = layer();
      const auto graph = run({t, sequence_.shape.C, 1}, sequence_.tokens, captured, false);
      for (const auto& [name, state] : captured.states)
        states[t][name] = {name, "", "", dims_of(state->value), values_of(state->value), false};
      if (spectra.count(t) == 0 || captured.states.count("S") == 0) continue;
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
    const Eigen::JacobiSVD<Eigen::MatrixXd> svd(
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
  Options layer_options_;  ///< of the inspected layer
  bool language_;
  std::int64_t heads_ = 1;
  std::optional<int> head_;
  std::unique_ptr<Task> task_;
  SequenceBuffer buffer_;
  SequenceView sequence_;
  std::unique_ptr<Model<double>> model_;
  std::vector<int> positions_;
  Inspection result_;
};

}  // namespace

const InspectArray* Inspection::find(const std::string& name) const {
  const auto at = std::ranges::find_if(arrays, [&](const InspectArray& array) { return array.name == name; });
  return at == arrays.end() ? nullptr : &*at;
}

Inspection inspect(const Options& config, const Weights& weights, const InspectRequest& request) {
  return Inspector(config, weights, request).result();
}

}  // namespace crosstalk
