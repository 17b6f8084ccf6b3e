// Longhorn, the implicit delta rule: S_t minimises |X - S_{t-1}|^2 + beta_t |X k_t - v_t|^2 over X, which is
// S_t = S_{t-1} + beta_t / (1 + beta_t k_t.k_t) (v_t - S_{t-1} k_t) k_t^T (Liu et al. 2024, arXiv
// 2407.14207).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory longhorn() {
  return {.name = "longhorn",
          .summary = "delta rule with an implicit step: stable at any rate and any length of key",
          .does = "the delta rule at a rate that the key's length bounds",
          .family = Family::erases,
          .equation = "S_t = S_{t-1} + beta_t / (1 + beta_t k_t.k_t) (v_t - S_{t-1} k_t) k_t^T, o = S q",
          .laws = "k and q being phi(k), phi(q) normalised by key_norm, beta_t = sigmoid(w.token + b)",
          .source = "Liu et al. 2024, arXiv 2407.14207",
          .notes =
              "This is the exact solution. The released code (longhorn_diagonal) takes S * (1 - D k^2) + D v "
              "k^T entry by entry, D = "
              "sigmoid / (1 + sigmoid k.k) a value channel: the same for one-hot keys alone.",
          .bounded_by_rank = true,
          .flops = flops::weights<14>,
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{.name = "beta", .range = {0.05, 0.95}}},
          .build = [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = m.input("beta", [&] { return sigmoid(m.token("beta")); });
            const auto squares = fold(k * k, {m.B, m.writes(), m.H, 1});
            const auto gain = beta * map(MapKind::reciprocal, 1.0 + beta * squares);  // gain |k|^2 < 1
            return read(m, q, {.key = k, .gain = gain, .erase = Erase::delta, .contracting = true});
          }};
}

}  // namespace crosstalk::memories
