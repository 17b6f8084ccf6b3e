// Softmax attention: o = sum_t softmax_t(q.k_t / sqrt(d_key)) v_t (Vaswani et al. 2017; baseline of Schlag et
// al. 2021). SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/parts.h"
#include "models/memories/registry.h"

namespace crosstalk {
namespace {

template <class Real>
Variable<Real>* build(ReadContext<Real>& c) {
  const double scale = 1 / std::sqrt(static_cast<double>(c.d_key()));
  auto* weights = softmax(c.graph, key_scores(c, scale), c.batch);
  return gather_values(c.graph, weights, c.values, c.batch);
}

}  // namespace

MemoryKind softmax_memory() {
  MemoryKind kind;
  kind.name = "softmax";
  kind.summary = "softmax attention over all stored pairs";
  kind.description =
      "o = sum_t softmax_t(q.k_t / sqrt(d_key)) v_t. Keeps every pair, so its state grows with the sequence "
      "and no d_dot bounds it. Projections start Xavier-uniform. Vaswani et al. 2017, arXiv 1706.03762; as "
      "in Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174.";
  kind.resolve = [](Options&) {};
  kind.d_dot = [](const Options&) -> std::int64_t { return 0; };
  kind.state_size = [](const Options& o, std::int64_t values, std::int64_t length) {
    return length * (o.get_int("model.d_key") + values);
  };
  kind.projection_init = ProjectionInit::xavier;
  kind.build_float = build<float>;
  kind.build_double = build<double>;
  return kind;
}

}  // namespace crosstalk
