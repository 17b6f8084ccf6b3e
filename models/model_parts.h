// Parts that stand around any memory, as options of the model, all off by default: short convolution and token shift of
// queries, keys or values, and norm and gate of what is read.
//
//   token_shift   x_t + mu * (x_{t-1} - x_t), a mu for every channel (RWKV: Peng et al. 2023, arXiv 2305.13048; of keys and
//                 values: Xu et al. 2024, arXiv 2411.19574)
//   short_conv    kernels/conv/short_conv.h, after the shift
//   out_norm      gain * rms(o); gain * layernorm(o) + bias over all heads (layer) or head by head (group)
//   out_gate      f(W x) * o, after the norm: x what asks, f sigmoid or SiLU (Qiu et al. 2025, arXiv 2505.06708; RetNet)
//
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "models/mixer.h"

namespace crosstalk {

/// Options under "model.".
const std::vector<OptionSpec>& part_options();
/// Refuses what has no meaning: options of a part that is off, and in the retrieval model parts of queries and values.
void resolve_parts(const Options& options);
/// Floats that the parts keep of a sequence beside the memory's state: tokens that convolution and shift look back to.
std::int64_t parts_state(const Options& options, std::int64_t values);

template <class Real>
class ModelParts {
 public:
  using Parameter = std::function<Variable<Real>*(const std::string&, const std::vector<int>&, Init)>;
  ModelParts(Graph<Real>& graph, const Options& options, Parameter parameter)
      : graph_(graph), options_(options), parameter_(std::move(parameter)) {}

  /// Whether mixed() changes `what`.
  bool mixes(const std::string& what) const;
  /// Rows x [B,T,C] of tokens in order, shifted and convolved where the options say so for `what`: "q", "k" or "v".
  Variable<Real>* mixed(const std::string& what, Variable<Real>* x);
  /// What is read, o [B,Q,H,V], normalised and gated.
  Var<Real> finished(Mixer<Real>& m, Var<Real> o);

 private:
  Variable<Real>* shifted(const std::string& what, Variable<Real>* x);
  Variable<Real>* convolved(Variable<Real>* x, Variable<Real>* w, bool silu);
  Var<Real> normalised(Mixer<Real>& m, Var<Real> o);

  Graph<Real>& graph_;
  const Options& options_;
  Parameter parameter_;
};

}  // namespace crosstalk
