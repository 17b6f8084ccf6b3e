// The retrieval model once more, in the slowest way: explicit one-hot tokens, projections, feature maps and norms; then the
// memory's oracle (NAME_test.cpp), fed with keys, queries, values and gates that are made of the parameters, the gates by
// the laws that its test states. A query stands at the last token that it sees, or one behind it where reads see earlier tokens
// alone. Sums of keys: Schlag, Irie, Schmidhuber 2021 (arXiv 2102.11174), eqs 17-20 and section 4.2.
//
// It also tells how near a kink or a vanishing denominator it came, where no comparison makes sense.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/text/options.h"
#include "kernels/feature_map/feature_map.h"
#include "models/memory.h"
#include "models/testing/gate_laws.h"
#include "models/testing/hand_batch.h"
#include "models/testing/sequence.h"

namespace crosstalk::checks {

/// Parameters of one replica by name, flat and row-major.
using Parameters = std::map<std::string, Vector>;

class RetrievalOracle {
 public:
  RetrievalOracle(const Options& options, int keys, int values, bool second_key, Parameters parameters,
                  Vector omega)
      : options_(options),
        keys_(keys),
        values_(values),
        d_key_(static_cast<int>(options.get_int("model.d_key"))),
        second_key_(second_key),
        parameters_(std::move(parameters)),
        omega_(std::move(omega)) {
    embedding_ = static_cast<int>(parameters_.at("key_embedding").size()) / keys;
    rows_ = matrix("key_embedding", embedding_);
    key_weight_ = token_weight("key_projection", d_key_);
    query_weight_ = matrix("query_projection.key", embedding_);
    const std::string map = options_.has("memory.feature_map") ? text("feature_map") : "identity";
#define CROSSTALK_PICK_MAP(kind)                        \
  if (map == maps::kind::info().name) {                 \
    map_.map = FeatureMap::kind;                        \
    const auto number = maps::kind::info().number;      \
    if (number) map_.number = number(options_, d_key_); \
  }
    CROSSTALK_FEATURE_MAPS(CROSSTALK_PICK_MAP)
#undef CROSSTALK_PICK_MAP
    const bool mosaics = memory().name == "memory_mosaics";  // whose scale is learned
    behind_ = mosaics || memory().name == "stick_breaking" ? 1 : 0;
    // Attention scales its products by default.
    options_.set("memory.scale",
                 memory().keeps_keys && !mosaics ? 1 / std::sqrt(static_cast<double>(d_key_)) : 1.0);
  }

  /// y [Q,V] of sequence b.
  Matrix read(const HandBatch& batch, int b) {
    Matrix y;
    for (int i = 0; i < batch.shape.Q; ++i) {
      const double kept = seen_.margin;
      y.push_back(read_after(batch, b, batch.query_at(b, i), batch.position_at(b, i)));
      if (batch.target_at(b, i) < 0) seen_.margin = kept;  // nobody looks at an unused slot
    }
    return y;
  }

  /// 0.5 |y - onehot(target)|^2, mean over used slots.
  double loss(const HandBatch& batch) {
    double total = 0;
    int used = 0;
    for (int b = 0; b < batch.B; ++b) {
      const Matrix y = read(batch, b);
      for (int i = 0; i < batch.shape.Q; ++i) {
        const int target = batch.target_at(b, i);
        if (target < 0) continue;
        ++used;
        for (int v = 0; v < values_; ++v) {
          const double error = y[static_cast<std::size_t>(i)][static_cast<std::size_t>(v)] - (v == target);
          total += 0.5 * error * error;
        }
      }
    }
    return total / used;
  }

  /// Smallest distance from a kink or a pole met so far.
  double margin() const { return seen_.margin; }
  /// Largest number that the state or a read held so far.
  double peak() const { return seen_.peak; }

 private:
  const Memory& memory() const { return *find_memory(options_.get_string("memory.name")); }
  void near(double distance) { seen_.near(distance); }
  std::string text(const char* name) const { return options_.get_string(std::string("memory.") + name); }

  Matrix matrix(const std::string& name, int columns) const { return rows_of(parameters_.at(name), columns); }
  static Matrix rows_of(const Vector& flat, int columns) {
    Matrix m;
    for (std::size_t i = 0; i < flat.size(); i += static_cast<std::size_t>(columns))
      m.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i),
                     flat.begin() + static_cast<std::ptrdiff_t>(i) + columns);
    return m;
  }

  Vector embed(int key) const {
    const auto e = static_cast<std::size_t>(embedding_);
    return key < 0 ? Vector(e, 0) : rows_[static_cast<std::size_t>(key)];
  }
  /// Projections of a token by name, through a lower rank or not, and the memory's parameters.
  std::map<std::string, Vector> numbers_of(const Vector& x) const {
    std::map<std::string, Vector> numbers;
    for (const auto& [name, values] : parameters_) {
      if (name.starts_with("memory.")) numbers[name.substr(7)] = values;
      if (!name.ends_with(".key") || name.find("_projection.") != name.npos) continue;
      const std::string prefix = name.substr(0, name.size() - 4);
      const int outputs = static_cast<int>(values.size()) / embedding_;
      if (prefix.ends_with(".down")) {
        const std::string of = prefix.substr(0, prefix.size() - 5);
        numbers[of] = plus(times(matrix(of + ".up", outputs), times(token_weight(prefix, outputs), x)), 1,
                           parameters_.at(of + ".bias"));
      } else {
        numbers[prefix] = project(prefix, token_weight(prefix, outputs), x);
      }
    }
    return numbers;
  }
  /// An input of the memory at a token, by the law that its test states, or the number of its name.
  Vector made(const MemoryInput& input, const Vector& x) const {
    GateArguments arguments{options_, numbers_of(x)};
    const auto law = gate_laws().find({memory().name, input.name});
    if (law == gate_laws().end()) return arguments.all(input.name);
    const bool wide = input.per == Per::key || input.per == Per::head_key || input.per == Per::other;
    Vector y;
    for (; arguments.channel < (wide ? d_key_ : 1); ++arguments.channel) y.push_back(law->second(arguments));
    return y;
  }
  Vector onehot(int value) const {
    Vector x(static_cast<std::size_t>(values_), 0);
    if (value >= 0) x[static_cast<std::size_t>(value)] = 1;
    return x;
  }
  // [onehot(v); E[k]; E[k']]
  Vector token(const HandBatch& batch, int b, int t) const {
    Vector x = onehot(batch.token(b, t, channel_value));
    const Vector key = embed(batch.token(b, t, channel_key));
    x.insert(x.end(), key.begin(), key.end());
    if (second_key_) {
      const Vector second = embed(batch.token(b, t, channel_second_key));
      x.insert(x.end(), second.begin(), second.end());
    }
    return x;
  }
  // The weight that stands before that token: [outputs, V + e (+ e)].
  Matrix token_weight(const std::string& prefix, int outputs) const {
    Matrix w(static_cast<std::size_t>(outputs));
    const Matrix value = matrix(prefix + ".value", outputs), key = matrix(prefix + ".key", embedding_);
    for (std::size_t o = 0; o < w.size(); ++o) {
      for (std::size_t v = 0; v < value.size(); ++v) w[o].push_back(value[v][o]);
      w[o].insert(w[o].end(), key[o].begin(), key[o].end());
      if (second_key_) {
        const Vector second = matrix(prefix + ".second_key", embedding_)[o];
        w[o].insert(w[o].end(), second.begin(), second.end());
      }
    }
    return w;
  }
  Vector project(const std::string& prefix, const Matrix& weight, const Vector& x) const {
    Vector y = times(weight, x);
    for (std::size_t o = 0; o < y.size(); ++o) y[o] += parameters_.at(prefix + ".bias")[o];
    return y;
  }

  // By the op, which the map's own oracle holds (kernels/feature_map/maps/NAME_test.cpp).
  Vector phi(const Vector& x) {
    MapFeatures<double> op = map_;
    const auto row = [](const Vector& numbers, int columns) {
      Tensor<double> t;
      t.data = const_cast<double*>(numbers.data()), t.R = 1, t.rank = 2;
      t.dims[0] = static_cast<int>(numbers.size()) / columns, t.dims[1] = columns;
      return t;
    };
    if (op.map == FeatureMap::elu1 || op.map == FeatureMap::relu || op.map == FeatureMap::dpfp)
      for (const double a : x) near(a);
    op.x.value = row(x, d_key_);
    if (!omega_.empty()) op.omega.value = row(omega_, d_key_);
    const int p = map_width(op.map, d_key_, op.number, static_cast<int>(omega_.size()) / d_key_);
    Vector y(static_cast<std::size_t>(p));
    op.y.value = row(y, p);
    forward(Exec{}, op);
    return y;
  }
  // phi, then key_norm. The released code adds 1e-6 to the sum of queries alone; sums of ReLU, and of DPFP of
  // an odd number of signs, can be zero.
  Vector feature(const Vector& x, bool is_query) {
    Vector y = phi(x);
    const std::string norm = text("key_norm");
    double divisor = 1;
    if (norm == "sum") {
      divisor = 0;
      for (const double a : y) divisor += a;
      near(divisor);
      const std::string map = text("feature_map");
      if (is_query || map == "relu" || (map == "dpfp" && d_key_ % 2 == 1)) divisor += kEps;
    } else if (norm == "l2") {
      near(std::sqrt(dot(y, y)));
      divisor = std::sqrt(dot(y, y) + kEps);
    } else if (norm != "none") {
      throw std::logic_error("the oracle does not know the key norm " + norm);
    }
    for (double& a : y) a /= divisor;
    return y;
  }

  // All tokens, with the query at each of them.
  Sequence sequence(const HandBatch& batch, int b, const Vector& query) {
    const int T = batch.shape.T + behind_;
    const bool mapped = options_.has("memory.feature_map");
    Sequence s{.T = T, .V = values_, .options = options_, .witness = &seen_};
    s.q.assign(static_cast<std::size_t>(T), mapped ? feature(query, true) : query);
    for (int t = 0; t < T; ++t) {
      if (t == batch.shape.T) {  // where a query stands behind all
        s.k.emplace_back(static_cast<std::size_t>(d_key_), 0.0), s.v.push_back(onehot(-1));
        for (auto& [name, rows] : s.in) rows.push_back(rows.back());
        continue;
      }
      const Vector x = token(batch, b, t), key = project("key_projection", key_weight_, x);
      s.k.push_back(mapped ? feature(key, false) : key);
      s.v.push_back(onehot(batch.token(b, t, channel_value)));
      for (const MemoryInput& input : memory().inputs) s.in[input.name].push_back(made(input, x));
    }
    s.K = static_cast<int>(s.q.front().size());
    return s;
  }

  Vector read_after(const HandBatch& batch, int b, int key, int n) {
    Sequence s = sequence(batch, b, project("query_projection", query_weight_, embed(key)));
    s.used = n - 1 + behind_;
    const Matrix all = find_oracle(memory().name)(s);
    const Vector y = n > 0 ? all.at(static_cast<std::size_t>(n - 1 + behind_))
                           : Vector(static_cast<std::size_t>(values_), 0);
    for (const double a : y) seen_.peak = std::max(seen_.peak, std::abs(a));
    return y;
  }

  static constexpr double kEps = 1e-6;

  Options options_;
  MapFeatures<double> map_;  ///< without tensors
  int keys_, values_, d_key_, embedding_ = 0, behind_ = 0;
  bool second_key_;
  Parameters parameters_;
  Vector omega_;
  Matrix rows_, key_weight_, query_weight_;
  Witness seen_;
};

}  // namespace crosstalk::checks
