// Peng's gate: S_t = (1 - beta_t) S_{t-1} + beta_t v_t phi(k_t)^T, z_t likewise with phi(k_t), o = S phi(q) /
// (z.phi(q)) (Peng et al. 2021, random feature attention; Schlag et al. 2021, appendix B). It fades
// everything, not one key. SPDX-License-Identifier: Apache-2.0
#include "models/memories/parts.h"
#include "models/memories/registry.h"

namespace crosstalk {
namespace {

template <class Real>
Variable<Real>* build(ReadContext<Real>& c) {
  Graph<Real>& g = c.graph;
  const auto [key, query] = features(c);
  auto* beta = sigmoid(g, 1, c.gate());
  auto* weights = recurrent_read<Real>(g, key, query, beta, nullptr, affine(g, -1, 1, beta), c.batch);
  // z gathers the same weights as a value that is always one, so z.q is the sum of the read weights.
  if (c.text("read_norm") == "attention") weights = normalize(g, RowNorm::sum, kReadEps, weights);
  return normalize_read(c, gather_values(g, weights, c.values, c.batch));
}

}  // namespace

MemoryKind peng_gate_memory() {
  MemoryKind kind = memory_of_features("elu1", "none", "attention");
  kind.name = "peng_gate";
  kind.summary = "gated sum rule: every write fades all that is stored";
  kind.description =
      "S_t = (1 - beta_t) S_{t-1} + beta_t v_t phi(k_t)^T, beta_t = sigmoid(w.token + b); with read_norm "
      "attention z_t = (1 - beta_t) z_{t-1} + beta_t phi(k_t) and o = S phi(q) / (z.phi(q) + 1e-6). Peng et "
      "al. 2021, arXiv 2103.02143; compared in Schlag, Irie, Schmidhuber 2021, appendix B.";
  kind.gated = true;
  kind.build_float = build<float>;
  kind.build_double = build<double>;
  return kind;
}

}  // namespace crosstalk
