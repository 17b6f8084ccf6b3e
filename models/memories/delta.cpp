// The delta rule: S_t = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T with k = phi(k) normalised (Schlag, Irie,
// Schmidhuber 2021, equations 22-25; DeltaNet, Yang et al. 2024, with key_norm l2).
//
// read_norm attention: vbar_t = S_{t-1} k_t / (z_{t-1}.k_t) with vbar_1 = 0 replaces S_{t-1} k_t, and o = S q
// / (z.q). SPDX-License-Identifier: Apache-2.0
#include "models/memories/parts.h"
#include "models/memories/registry.h"

namespace crosstalk {
namespace {

template <class Real>
Variable<Real>* build(ReadContext<Real>& c) {
  Graph<Real>& g = c.graph;
  const std::function<Variable<Real>*()> gate = [&] {
    return sigmoid(g, static_cast<double>(c.integer("beta_max")), c.gate());
  };
  const bool attention = c.text("read_norm") == "attention";
  Variable<Real>* weights = attention ? nullptr : table_read(c, gate);
  if (!weights) {
    const auto [key, query] = features(c);
    auto* beta = gate();
    if (attention) {
      const auto [zk, zq] = prefix_dot(g, key, query, c.batch);
      auto* erase = erase_ratio(g, beta, zk);
      weights =
          row_divide(g, kReadEps, recurrent_read<Real>(g, key, query, beta, erase, nullptr, c.batch), zq);
    } else {
      const bool contracting = c.text("key_norm") != "none";  // then |k| <= 1, and beta <= 2
      weights = recurrent_read<Real>(g, key, query, beta, beta, nullptr, c.batch, contracting);
    }
  }
  return normalize_read(c, gather_values(g, weights, c.values, c.batch));
}

}  // namespace

MemoryKind delta_memory() {
  MemoryKind kind = memory_of_features("elu1", "sum", "none");
  kind.name = "delta";
  kind.summary = "delta rule: reads what a key holds, writes the difference";
  kind.description =
      "S_t = S_{t-1} + beta_t (v_t - S_{t-1} k_t) k_t^T, o = S q, k and q being phi(k), phi(q) normalised by "
      "key_norm, beta_t = beta_max sigmoid(w.token + b). With a unit key and beta = 1 the old value is "
      "replaced exactly; beta = 2 and no value reflects, which exchanges two values. read_norm attention: "
      "the retrieved value is divided too (vbar_t = S_{t-1} k_t / (z_{t-1}.k_t), vbar_1 = 0, o = S q / "
      "(z.q)). Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174; Yang et al. 2024, arXiv 2406.06484.";
  kind.options.push_back(beta_max_option());
  kind.gated = true;
  kind.build_float = build<float>;
  kind.build_double = build<double>;
  return kind;
}

}  // namespace crosstalk
