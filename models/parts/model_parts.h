// Parts that stand around any memory, as options of the model, all off by default: what queries, keys and values go through
// before the memory, and norm, gate and skip of what is read.
//
//   token_shift   x_t + mu * (x_{t-1} - x_t), a mu for every channel (RWKV: Peng et al. 2023, arXiv 2305.13048; of keys and
//                 values: Xu et al. 2024, arXiv 2411.19574), or sigmoid(w.token_t) a head (FoX Pro)
//   short_conv    kernels/conv/short_conv.h, after the shift, and a bias
//   input_shift   what projections see, x_t + mu * (x_{t-1} - x_t) with a mu of its own for each of them (RWKV-4, 7), or
//                 mu + W2 tanh(W1 x') (RWKV-6; models/mixers/language_mixer.h)
//   silu          x sigmoid(x), after the convolution or without one
//   qk_norm       gain * rms(x) of queries and keys, head by head; rotary: turned by their positions; feature_scale: times
//                 d^(-1/4), so that products are q.k / sqrt(d)
//   out_skip      o + D v, v that of the token which asks; out_act: SiLU of what is read
//   out_norm      gain * rms(o) head by head or over all heads; gain * layernorm(o) + bias over all heads (layer) or head by
//                 head (group)
//   bonus         o + (q.(r * k)) v behind the norm, k and v those of the token which asks, r a number a key channel (RWKV-7)
//   out_gate      f(W x) * o, after the norm or before it: x what asks, f sigmoid, SiLU or GELU, or W2 sigmoid(W1 x)
//                 (Qiu et al. 2025, arXiv 2505.06708; RetNet)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/mixers/mixer.h"

namespace crosstalk {

/// Options under "model.".
const std::vector<OptionSpec>& part_options();
/// Refuses what has no meaning: options of a part that is off, and in the retrieval model parts of queries and values.
void resolve_parts(const Options& options);
/// Floats that the parts keep of a sequence beside the memory's state: tokens that convolution and shift look back to.
std::int64_t parts_state(const Options& options, std::int64_t values);
/// Heads that have keys and queries of their own: model.key_groups, or all.
std::int64_t key_heads(const Options& options);

/// model.biases: projections that have a bias, and, after a minus, those that have none.
struct NamedBias {
  std::string name;
  bool has;
};
std::vector<NamedBias> named_biases(const Options& options);
/// Words of a text, at its spaces.
std::vector<std::string> words_of(const std::string& text);

/// Name under which an input of the memory is shown (models/parts/captured.h): a law may call what it learns as something else is called that
/// is shown, and `inspect` reads a decay as one.
std::string shown_as(const Options& options, const std::string& input);

template <class Real>
class ModelParts {
 public:
  using Parameter = std::function<Variable<Real>*(const std::string&, const std::vector<int>&, Init)>;
  ModelParts(Graph<Real>& graph, const Options& options, Parameter parameter)
      : graph_(graph), options_(options), parameter_(std::move(parameter)) {}

  /// Tells whether mixed() looks at other tokens for `what`.
  bool mixes(const std::string& what) const;
  /// Rows x [B,T,C] of tokens in order, shifted, convolved and activated where the options say so for `what`: "q", "k" or
  /// "v"; `m` is asked for the mu that tokens decide.
  Variable<Real>* mixed(const std::string& what, Variable<Real>* x, Mixer<Real>* m = nullptr);
  /// Queries ("q") or keys ("k") [B,n,G,d], normalised, turned and scaled where the options say so.
  Var<Real> placed(Mixer<Real>& m, const std::string& what, Var<Real> x);
  /// The read o [B,Q,H,V], with the skip, activated, normalised and gated. `written`: keys [B,T,H,K] that the memory
  /// wrote along, where they are not the model's; `convolved` [B,T,H,V]: what out_skip = "convolved" adds behind the norm.
  Var<Real> finished(Mixer<Real>& m, Var<Real> o, Var<Real> written = {}, Var<Real> convolved = {});
  /// x [B,T,C] convolved as the options say, its weights called short_conv.WHAT.
  Variable<Real>* convolved_as_told(const std::string& what, Variable<Real>* x, bool silu, Mixer<Real>* m);

 private:
  Variable<Real>* shifted(const std::string& what, Variable<Real>* x, Mixer<Real>* m);
  Variable<Real>* convolved(Variable<Real>* x, Variable<Real>* w, bool silu, Variable<Real>* bias = nullptr);
  Var<Real> skipped(Mixer<Real>& m, Var<Real> o);
  Var<Real> normalised(Mixer<Real>& m, Var<Real> o);
  Var<Real> with_bonus(Mixer<Real>& m, Var<Real> o, Var<Real> written);
  Var<Real> gated(Mixer<Real>& m, Var<Real> o);

  Graph<Real>& graph_;
  const Options& options_;
  Parameter parameter_;
};

}  // namespace crosstalk
