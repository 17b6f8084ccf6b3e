// Fast weight memory: the delta rule with the state rescaled to Frobenius norm <= 1 after every step, read
// through LayerNorm (Schlag, Munkhdalai, Schmidhuber 2021; the rule "fwm" of Schlag, Irie, Schmidhuber 2021's
// synthetic code). SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/parts.h"
#include "models/memories/registry.h"

namespace crosstalk {
namespace {

template <class Real>
Variable<Real>* build(ReadContext<Real>& c) {
  const auto [key, query] = features(c);
  auto* beta = sigmoid(c.graph, static_cast<double>(c.integer("beta_max")), c.gate());
  return normalize_read(c, fwm_read(c.graph, key, query, beta, c.values, c.batch));
}

}  // namespace

MemoryKind fwm_memory() {
  MemoryKind kind = memory_of_features("tanh", "none", "layernorm");
  kind.name = "fwm";
  kind.summary = "delta rule with a rescaled state, read through LayerNorm";
  kind.description =
      "S_1 = beta_1 v_1 k_1^T; S' = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T, S_t = S' / (relu(|S'|_F - 1) "
      "+ 1); o = LayerNorm(S q) without gain. Not linear in its state, so the state is formed. Schlag, "
      "Munkhdalai, Schmidhuber 2021, arXiv 2011.07831; as in the code of arXiv 2102.11174.";
  kind.options.push_back(beta_max_option());
  kind.resolve = [](Options& o) {
    resolve_feature_map(o);
    if (o.get_string("memory.read_norm") == "attention") {
      throw OptionError(
          "memory.read_norm",
          "memory.read_norm = \"attention\" has no meaning for fwm: its state is rescaled after every step, "
          "so no running sum of keys matches it; use \"layernorm\" or \"none\"");
    }
    refuse_vanishing_sums(o);
  };
  kind.gated = true;
  kind.build_float = build<float>;
  kind.build_double = build<double>;
  return kind;
}

}  // namespace crosstalk
