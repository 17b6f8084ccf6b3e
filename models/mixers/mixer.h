// Services of the model around a memory: keys, queries and values, projections of the token, parameters.
//
// Shapes: R replicas (always the first dimension, not written below), B sequences, T tokens, N writes a token
// and M = T N writes a sequence, Q queries, H heads, d key size before the feature map, K after it, V value
// size.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/narrow.h"
#include "kernels/elementwise/elementwise.h"
#include "models/graph/graph.h"
#include "models/graph/nodes.h"
#include "models/memory.h"

namespace crosstalk {

template <class Real>
struct Carried;

/// Way of a projection of the token to its numbers: at once, or through `rank` numbers, of which `inner` is taken. The
/// weights that make the numbers start as the model's do, times `start`.
struct Through {
  int rank = 0;
  MapKind inner = MapKind::affine;
  double start = 1;
  Through(int rank_ = 0, MapKind inner_ = MapKind::affine, double start_ = 1)
      : rank(rank_), inner(inner_), start(start_) {}
};

// Gates are calculated with these; dimensions of 1 are repeated.
template <class Real>
Var<Real> operator+(Var<Real> a, Var<Real> b);
template <class Real>
Var<Real> operator-(Var<Real> a, Var<Real> b);
template <class Real>
Var<Real> operator*(Var<Real> a, Var<Real> b);
/// scale f(x) + shift.
template <class Real>
Var<Real> map(MapKind kind, Var<Real> x, double scale = 1, double shift = 0);
template <class Real>
Var<Real> operator*(double scale, Var<Real> x) {
  return map(MapKind::affine, x, scale);
}
template <class Real>
Var<Real> operator+(double shift, Var<Real> x) {
  return map(MapKind::affine, x, 1, shift);
}
template <class Real>
Var<Real> operator-(double shift, Var<Real> x) {
  return map(MapKind::affine, x, -1, shift);
}
template <class Real>
Var<Real> operator-(Var<Real> x) {
  return map(MapKind::affine, x, -1);
}
template <class Real>
Var<Real> exp(Var<Real> x) {
  return map(MapKind::exp, x);
}
/// scale (e^x - 1), to the last digits of small x: 1 - e^x is expm1(x, -1).
template <class Real>
Var<Real> expm1(Var<Real> x, double scale = 1) {
  return map(MapKind::expm1, x, scale);
}
template <class Real>
Var<Real> log(Var<Real> x) {
  return map(MapKind::log, x);
}
template <class Real>
Var<Real> softplus(Var<Real> x) {
  return map(MapKind::softplus, x);
}
template <class Real>
Var<Real> log_sigmoid(Var<Real> x) {
  return map(MapKind::log_sigmoid, x);
}
/// scale / (1 + e^-x).
template <class Real>
Var<Real> sigmoid(Var<Real> x, double scale = 1) {
  return map(MapKind::sigmoid, x, scale);
}
/// max(|a|, |b|).
template <class Real>
Var<Real> larger(Var<Real> a, Var<Real> b);
/// h_t = e^{log_a_t} h_{t-1} + x_t (log_a absent: 0) from h_{-1} = start, or 0, and L_t = log(e^{L_{t-1} + d_t} + e^{k_t}) from start,
/// or -inf; a channel each, [B,T,H,n], start [B,H,n] in any shape. gap: gets k_t - L_{t-1} - d_t, at most kWideGap.
template <class Real>
Var<Real> scan(Var<Real> log_a, Var<Real> x, Var<Real> start = {});
template <class Real>
Var<Real> log_scan(Var<Real> d, Var<Real> k, Var<Real> start = {}, Var<Real>* gap = nullptr);
/// The second and the third dimension change places.
template <class Real>
Var<Real> swap(Var<Real> x);
/// x with the dimensions of 1 repeated to `dims`, and summed over the dimensions where `dims` has 1.
template <class Real>
Var<Real> expand(Var<Real> x, std::initializer_list<Dimension> dims);
template <class Real>
Var<Real> fold(Var<Real> x, std::initializer_list<Dimension> dims);
/// The same numbers in another shape.
template <class Real>
Var<Real> view(Var<Real> x, std::initializer_list<Dimension> dims);
/// `inner` of rows of any shape.
template <class Real>
Variable<Real>* inner(const Through& through, Graph<Real>& graph, Variable<Real>* rows) {
  return through.inner == MapKind::affine ? rows : map(through.inner, Var<Real>{&graph, rows}).variable;
}
/// Rows of the last dimension divided by their length, sqrt(|x|^2 + 1e-6).
template <class Real>
Var<Real> unit(Var<Real> x);

/// The largest of every row of the last dimension, [..,1].
template <class Real>
Var<Real> maximum(Var<Real> x);
/// Rows of the last dimension, e^x divided by their sum.
template <class Real>
Var<Real> softmax(Var<Real> x);

/// Rows of the last dimension divided by the root of their mean square, sqrt(mean x^2 + eps).
template <class Real>
Var<Real> rms(Var<Real> x, double eps);

/// Sizes of a read.
struct MixerSizes {
  int B = 0, T = 0, Q = 0, H = 1, d = 0, K = 0, V = 0, N = 1;
};

template <class Real>
class Mixer {
 public:
  Mixer(Graph<Real>& graph_, const Options& options_, const MixerSizes& sizes)
      : graph(graph_),
        options(options_),
        B(sizes.B),
        T(sizes.T),
        Q(sizes.Q),
        H(sizes.H),
        d(sizes.d),
        K(sizes.K),
        V(sizes.V),
        N(sizes.N) {}
  virtual ~Mixer() = default;
  Mixer(const Mixer&) = delete;

  Graph<Real>& graph;
  const Options& options;  ///< resolved; the memory's own under "memory."
  const Size B, T, Q, H, d, K, V, N;
  Size writes() const { return T * N; }

  /// Keys [B,M,H,d] and queries [B,Q,H,d] before the feature map; none for a memory without its own.
  virtual Var<Real> keys() = 0;
  virtual Var<Real> queries() = 0;
  /// Values [B,M,H,V].
  virtual Var<Real> values() = 0;
  /// Read weights [B,H,Q,M] to values read [B,Q,H,V]; with eps, weights divided by (their sum + eps). gain
  /// [B,M,H,1] scales the values; value [B,M,H,any] stands in for them.
  Var<Real> mix(Var<Real> weights, std::optional<double> eps = {}, Var<Real> gain = {}, Var<Real> value = {});
  /// Drops weights, softmaxed or divided, in training before they meet the values (dropout).
  virtual Var<Real> thinned(Var<Real> weights) { return weights; }
  /// Picks of tokens' numbers x [B,T,H,n] those of the last token that a query sees: [B,Q,H,n], 0 where it sees none.
  Var<Real> at_queries(Var<Real> x);
  /// The batch whose tokens hold the values' ids (one-hot, wide: weights are better than states), or none where
  /// values are dense.
  virtual std::optional<BatchIds> batch() const { return {}; }
  /// int32 [B,Q]: tokens that a query sees; nullptr: query t stands at token t and sees it and those before.
  virtual const Tensor<std::int32_t>* position() const = 0;
  /// A projection of every token [B,T,H,width] (per_write: of every write, [B,M,H,width]), with a bias that
  /// starts as `bias` says (default: as the weights).
  virtual Var<Real> token(const std::string& name, int width = 1, std::optional<Init> bias = {},
                          Through through = {}, bool per_write = false) = 0;
  /// A projection of what asks, [B,Q,H,width]: of the token at which a query stands, or, where queries stand
  /// beside the sequence, of the query.
  virtual Var<Real> asking(const std::string& name, int width = 1, std::optional<Init> bias = {},
                           Through through = {}) {
    return token(name, width, bias, through);
  }
  /// A parameter of the memory's own: {H} as [1,1,H,1], {H,n} as [1,1,H,n], and {m,n} that all heads share as [1,1,m,n].
  virtual Var<Real> parameter(const std::string& name, std::vector<int> dims, Init init) = 0;
  /// The input that the memory calls `name`: by its law, or given.
  virtual Var<Real> input(const std::string& name, const std::function<Var<Real>()>& law) {
    return by_law(name, law);
  }
  /// Random features omega [m,d] of FAVOR+.
  virtual Variable<Real>* omega(int m) = 0;
  /// Factor of scores q.k where the memory scales them: 1/sqrt(d) by default.
  virtual double scale() const;
  /// eps of the denominators of reads.
  virtual double read_eps() const { return 1e-6; }
  /// Tells whether attention leaves out the token at which a query stands.
  virtual bool strict() const { return false; }
  /// Factor of queries after features(), whatever the memory.
  virtual double query_scale() const { return 1; }
  /// eps of the normalisation of keys and queries.
  virtual double norm_eps() const { return 1e-6; }
  /// Place of the layer among those of the model, from 0 (the first, or the only one) to 1 (the last).
  virtual double depth() const { return 0; }
  /// Share of the model's layers that stand before this one.
  virtual double earlier() const { return 0; }
  /// Numbers of a token, of which ranks are derived.
  virtual int token_size() const { return H * d; }
  /// Tells whether gates follow their laws from the token (a model), or are given as they are.
  virtual bool learned() const { return true; }
  /// Tells whether an optional input is there.
  virtual bool has_input(const std::string& /*name*/) const { return at_tokens(); }
  /// The state before the first token (S [B,H,V,K], z [B,H,1,K]), or none; and what to do with that after
  /// the last.
  virtual Var<Real> start(const std::string& /*state*/) { return {}; }
  virtual bool wants_end() const { return false; }
  virtual void end(const std::string& /*state*/, Var<Real> /*value*/) {}

  /// Numbers that the parts around the memory hand on where the layer reads a piece of a sequence (models/parts/carried.h); nullptr: it
  /// reads whole sequences.
  virtual Carried<Real>* piece() { return nullptr; }

  /// Tells whether reads should form their weights over writes, which are looked at, where the memory leaves the choice.
  virtual bool wants_weights() const { return false; }

  /// Engines call it with every decay that they are given, or its logarithm, [B,T,H,n] or dimensions of 1.
  virtual void watch_decay(Var<Real> /*decay*/, bool /*logarithm*/) {}
  /// Something that people may want to look at (Model::look): keys before and after phi, what the token
  /// decides, what is written and erased. The first name of a variable stays.
  virtual void note(const std::string& /*name*/, Var<Real> /*x*/) {}
  /// Read weights [B,H,Q,M], still to be divided by (their sum + eps) where eps is given.
  virtual void note_weights(Var<Real> /*weights*/, std::optional<double> /*eps*/) {}

  /// Inputs that were asked for, and what laws made of them (models/build.h).
  struct Asked {
    std::string name;
    Var<Real> value;
  };
  const std::vector<Asked>& asked() const { return asked_; }
  /// The input whose law is being followed, or nothing.
  const std::string& law_at_work() const { return law_; }

  /// One number a head, [1,1,H,1], or of very many heads the one of all, [1,1,1,1].
  Var<Real> constant(const std::function<double(int head)>& f);
  /// What `ask` asks for is the model's, not the memory's.
  template <class Ask>
  auto for_model(Ask&& ask) {
    const bool before = std::exchange(for_model_, true);
    auto x = ask();
    for_model_ = before;
    return x;
  }
  /// Tells whether a query stands at a token of its own (a language model), not beside the sequence.
  bool at_tokens() const { return position() == nullptr; }

  bool has(const char* name) const { return options.has(key(name)); }
  const std::string& text(const char* name) const { return options.get_string(key(name)); }
  int integer(const char* name) const { return narrow<int>(options, key(name)); }
  double number(const char* name) const { return options.get_double(key(name)); }
  bool flag(const char* name) const { return options.get_bool(key(name)); }

 protected:
  /// mix() where batch() holds ids.
  virtual Var<Real> gather(Var<Real> weights, std::optional<double> eps);
  /// input() of a model.
  Var<Real> by_law(const std::string& name, const std::function<Var<Real>()>& law) {
    asked_.push_back({name, {}});
    const std::size_t at = asked_.size() - 1;
    const std::string outer = std::exchange(law_, name);
    const Var<Real> x = law();
    law_ = outer;
    return asked_[at].value = x;
  }
  /// Every parameter of a memory has a name of its own, but for those that the model asks for (for_model).
  void first_asked(const std::string& name) {
    if (!for_model_ && !parameters_asked_.insert(name).second)
      throw std::logic_error("it asks for the parameter " + name +
                             " twice; keep what the first call gave, or give the second a name of its own");
  }
  /// Who asks for the parameters of `name` (ParameterBlock::Asking).
  std::string quantity(const std::string& name) const { return for_model_ ? "" : name; }

 private:
  std::vector<Asked> asked_;
  std::string law_;
  bool for_model_ = false;
  std::set<std::string> parameters_asked_;
  static std::string key(const char* name) { return std::string("memory.") + name; }
};

}  // namespace crosstalk
