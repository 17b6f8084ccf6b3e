// Parallax: softmax attention with a first-order correction by a second query r, o = sum_j p_j v_j (1 + sum_i p_i r.k_i) -
// sum_j p_j (r.k_j) v_j, p = softmax(q.k / sqrt(d)) (parameterised local linear attention: 2026, arXiv 2605.29157).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(parallax) {
  return {
      .summary = "softmax attention corrected to first order by a second query",
      .does = "softmax attention minus the covariance of values with r.k under its weights, r a second query",
      .family = Family::keeps,
      .equation = "p_j = softmax_j(q_t.k_j / sqrt(d)), o_t = sum_j p_j (1 + sum_i p_i r_t.k_i - r_t.k_j) v_j",
      .laws = "r = W x + b, x the token that asks",
      .source = "Parallax 2026, arXiv 2605.29157",
      .notes = "r.k is not scaled. In the retrieval model x is the query's embedding.",
      .order_free = true,
      .flops = flops::weights<18>,
      .inputs = {{.name = "second_query", .per = Per::key, .symbol = "r", .open = Open{0}}},
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto r = m.input("second_query", [&] { return m.asking("second_query", m.K); });
            const auto p = attend(m, q, k, {.scale = m.scale()});
            const auto bent = p * attend(m, r, k, {.kernel = Kernel::identity, .normalised = false});
            const auto slope = fold(bent, {m.B, m.H, m.Q, 1});
            return m.mix(p + slope * p - bent);
          },
      .published = {.source = fla_layers("parallax.py"),
                    .settings = "rotary=true, biases=-second_query",
                    .parameters = 20480,
                    .lacks = {{"positions of the second query", "the second query asks for content alone"}}}};
}
