// The retrieval model and its memories once more, straight from the papers and in the slowest way: explicit
// one-hot tokens, explicit state matrices, one recurrence from the first token on for every query.
//
//   sum rule and attention normalisation  Katharopoulos et al. 2020 eqs 16-20; Schlag, Irie, Schmidhuber 2021
//                                         (arXiv 2102.11174) eqs 17-20
//   DPFP                                  the same, eq 37 and listing 1
//   delta rule                            the same, eqs 21-25; normalised: its section 4.2
//   gate                                  Peng et al. 2021 (arXiv 2103.02143) eq 8
//   fast weight memory                    Schlag, Munkhdalai, Schmidhuber 2021 (arXiv 2011.07831) eqs 5-9
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

#include "kernels/base/options.h"
#include "models/testing/hand_batch.h"

namespace crosstalk::checks {

using Vector = std::vector<double>;
using Matrix = std::vector<Vector>;  ///< rows

/// Parameters of one replica by name, flat and row-major.
using Parameters = std::map<std::string, Vector>;

class Oracle {
 public:
  Oracle(const Options& options, int keys, int values, bool second_key, Parameters parameters, Vector omega)
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
    if (parameters_.count("gate.key") != 0) gate_weight_ = token_weight("gate", 1);
  }

  /// y [Q,V] of sequence b.
  Matrix read(const HandBatch& batch, int b) {
    Matrix y;
    for (int i = 0; i < batch.shape.Q; ++i) {
      const double kept = margin_;
      y.push_back(read_after(batch, b, batch.query_at(b, i), batch.position_at(b, i)));
      if (batch.target_at(b, i) < 0) margin_ = kept;  // nobody looks at an unused slot
    }
    return y;
  }

  /// 0.5 |y - onehot(target)|^2, mean over used slots.
  double loss(const HandBatch& batch) {
    double total = 0;
    int used = 0;
    for (int b = 0; b < batch.B; ++b) {
      const Matrix y = read(batch, b);
      state_after(batch, b, batch.shape.T);  // tokens that no query sees pass kinks and poles too
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
  double margin() const { return margin_; }
  /// Largest number that the state or a read held so far.
  double peak() const { return peak_; }
  /// Numbers that the last recurrence kept, and the dimension of its keys after phi.
  std::int64_t state_floats() const { return state_floats_; }
  std::int64_t feature_dimension() const { return feature_dimension_; }

 private:
  struct State {
    Matrix S;            ///< [V, P]
    Vector z;            ///< sum of keys, where reads are divided by it
    Matrix keys, cache;  ///< softmax keeps everything
    bool started = false;
  };

  static double dot(const Vector& a, const Vector& b) {
    if (a.size() != b.size()) throw std::logic_error("oracle: lengths differ");
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
  }
  static Vector times(const Matrix& m, const Vector& x) {
    Vector y;
    for (const Vector& row : m) y.push_back(dot(row, x));
    return y;
  }
  void near(double distance) { margin_ = std::min(margin_, std::abs(distance)); }
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

  Vector phi(const Vector& x) {
    const std::string map = text("feature_map");
    Vector y;
    if (map == "identity") {
      y = x;
    } else if (map == "elu1") {
      for (const double a : x) near(a), y.push_back(a > 0 ? a + 1 : std::exp(a));
    } else if (map == "relu") {
      for (const double a : x) near(a), y.push_back(a > 0 ? a : 0);
    } else if (map == "tanh") {
      for (const double a : x) y.push_back(std::tanh(a));
    } else if (map == "dpfp") {
      Vector f;
      for (const double a : x) near(a), f.push_back(a > 0 ? a : 0);
      for (const double a : x) f.push_back(a < 0 ? -a : 0);
      const auto n = f.size();
      for (std::int64_t j = 1; j <= options_.get_int("memory.nu"); ++j) {
        for (std::size_t i = 0; i < n; ++i) y.push_back(f[i] * f[(i + n - static_cast<std::size_t>(j)) % n]);
      }
    } else if (map == "favor") {
      const Matrix omega = rows_of(omega_, d_key_);
      const double m = static_cast<double>(omega.size()), norm = std::exp(-dot(x, x) / 2);
      const bool both = text("favor_variant") == "hyperbolic";
      const double scale = norm / std::sqrt(both ? 2 * m : m);
      for (const Vector& row : omega) y.push_back(scale * std::exp(dot(row, x)));
      for (std::size_t i = 0; both && i < omega.size(); ++i) y.push_back(scale * std::exp(-dot(omega[i], x)));
    } else {
      throw std::logic_error("the oracle does not know the feature map " + map);
    }
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

  bool divides() const { return text("read_norm") == "attention"; }
  static void add_outer(Matrix& S, double scale, const Vector& v, const Vector& k) {
    for (std::size_t i = 0; i < S.size(); ++i) {
      for (std::size_t j = 0; j < k.size(); ++j) S[i][j] += scale * v[i] * k[j];
    }
  }

  void step(const std::string& kind, State& state, const HandBatch& batch, int b, int t) {
    const Vector x = token(batch, b, t), raw = project("key_projection", key_weight_, x);
    const Vector v = onehot(batch.token(b, t, channel_value));
    if (kind == "softmax") {
      state.keys.push_back(raw);
      state.cache.push_back(v);
      return;
    }
    const Vector k = feature(raw, false);
    if (state.S.empty()) state.S.assign(v.size(), Vector(k.size(), 0));
    if (divides() && state.z.empty()) state.z.assign(k.size(), 0);
    double beta = 1;
    if (kind != "linear_attention") {
      const double logit = project("gate", gate_weight_, x)[0];
      const double top = options_.has("memory.beta_max") ? options_.get_double("memory.beta_max") : 1;
      beta = top / (1 + std::exp(-logit));
    }
    if (kind == "linear_attention") {
      add_outer(state.S, 1, v, k);
      for (std::size_t j = 0; j < state.z.size(); ++j) state.z[j] += k[j];
    } else if (kind == "peng_gate") {
      for (Vector& row : state.S) {
        for (double& s : row) s *= 1 - beta;
      }
      add_outer(state.S, beta, v, k);
      for (std::size_t j = 0; j < state.z.size(); ++j) state.z[j] = (1 - beta) * state.z[j] + beta * k[j];
    } else if (kind == "delta") {
      Vector held = times(state.S, k);
      if (divides() && state.started) {
        near(dot(state.z, k));
        for (double& h : held) h /= dot(state.z, k);
      } else if (divides()) {
        std::fill(held.begin(), held.end(), 0);
      }
      Vector change = v;
      for (std::size_t i = 0; i < v.size(); ++i) change[i] -= held[i];
      add_outer(state.S, beta, change, k);
      for (std::size_t j = 0; j < state.z.size(); ++j) state.z[j] += k[j];
    } else if (kind == "fwm") {
      const Vector held = times(state.S, k);
      Vector change = v;
      for (std::size_t i = 0; i < v.size(); ++i) change[i] -= held[i];
      add_outer(state.S, beta, change, k);
      double square = 0;
      for (const Vector& row : state.S) square += dot(row, row);
      if (state.started) {  // the first step is not rescaled
        const double norm = std::sqrt(square), divisor = std::max(norm - 1, 0.) + 1;
        near(norm - 1);
        for (Vector& row : state.S) {
          for (double& s : row) s /= divisor;
        }
      }
    } else {
      throw std::logic_error("the oracle does not know the memory " + kind +
                             ": write its recurrence in models/testing/oracle.h");
    }
    state.started = true;
  }

  State state_after(const HandBatch& batch, int b, int n) {
    State state;
    for (int t = 0; t < n; ++t) step(options_.get_string("memory.name"), state, batch, b, t);
    return state;
  }

  Vector read_after(const HandBatch& batch, int b, int key, int n) {
    const std::string kind = options_.get_string("memory.name");
    const State state = state_after(batch, b, n);
    note(state);
    const Vector raw = project("query_projection", query_weight_, embed(key));
    Vector y(static_cast<std::size_t>(values_), 0);
    if (kind == "softmax") {
      double total = 0;
      for (std::size_t t = 0; t < state.keys.size(); ++t) {
        const double weight = std::exp(dot(state.keys[t], raw) / std::sqrt(d_key_));
        total += weight;
        for (std::size_t v = 0; v < y.size(); ++v) y[v] += weight * state.cache[t][v];
      }
      for (double& a : y) a /= n > 0 ? total : 1;
    } else {
      const Vector q = feature(raw, true);
      if (n > 0) y = times(state.S, q);
      if (divides() && n > 0) {
        near(dot(state.z, q));
        for (double& a : y) a /= dot(state.z, q) + kEps;
      }
      if (text("read_norm") == "layernorm") y = layernorm(y);
    }
    for (const double a : y) peak_ = std::max(peak_, std::abs(a));
    return y;
  }

  Vector layernorm(Vector y) {
    double mean = 0, variance = 0;
    for (const double a : y) mean += a / static_cast<double>(y.size());
    for (const double a : y) variance += (a - mean) * (a - mean) / static_cast<double>(y.size());
    near(std::sqrt(variance));
    for (double& a : y) a = (a - mean) / std::sqrt(variance + 1e-5);
    return y;
  }

  void note(const State& state) {
    state_floats_ = static_cast<std::int64_t>(state.z.size());
    for (const Matrix* m : {&state.S, &state.keys, &state.cache}) {
      for (const Vector& row : *m) {
        state_floats_ += static_cast<std::int64_t>(row.size());
        for (const double s : row) peak_ = std::max(peak_, std::abs(s));
      }
    }
    if (!state.S.empty()) feature_dimension_ = static_cast<std::int64_t>(state.S[0].size());
  }

  static constexpr double kEps = 1e-6;

  Options options_;
  int keys_, values_, d_key_, embedding_ = 0;
  bool second_key_;
  Parameters parameters_;
  Vector omega_;
  Matrix rows_, key_weight_, query_weight_, gate_weight_;
  double margin_ = std::numeric_limits<double>::infinity(), peak_ = 1;
  std::int64_t state_floats_ = 0, feature_dimension_ = 0;
};

}  // namespace crosstalk::checks
