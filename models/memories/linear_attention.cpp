// The sum rule: S_t = S_{t-1} + v_t phi(k_t)^T, o = S phi(q) / (z.phi(q) + 1e-6), z = sum_t phi(k_t)
// (Katharopoulos et al. 2020; with read_norm none the fast weights of Schmidhuber 1991).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/parts.h"
#include "models/memories/registry.h"

namespace crosstalk {
namespace {

template <class Real>
Variable<Real>* build(ReadContext<Real>& c) {
  const bool attention = c.text("read_norm") == "attention";
  const auto eps = attention ? std::optional(kReadEps) : std::nullopt;
  return normalize_read(c, gather_values(c.graph, key_scores(c, 1), c.values, c.batch, eps));
}

}  // namespace

MemoryKind linear_attention_memory() {
  MemoryKind kind = memory_of_features("elu1", "none", "attention");
  kind.name = "linear_attention";
  kind.summary = "sum rule: adds up outer products, never erases";
  kind.description =
      "S_t = S_{t-1} + v_t phi(k_t)^T, read o = S phi(q); with read_norm attention divided by z.phi(q) + "
      "1e-6, z = sum phi(k). At most d_dot associations can be told apart. feature_map elu1: linear "
      "attention (Katharopoulos et al. 2020, arXiv 2006.16236); dpfp: Schlag, Irie, Schmidhuber 2021, arXiv "
      "2102.11174; favor: Performer (Choromanski et al. 2021).";
  kind.build_float = build<float>;
  kind.build_double = build<double>;
  return kind;
}

}  // namespace crosstalk
