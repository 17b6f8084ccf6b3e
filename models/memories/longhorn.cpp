// Longhorn, the implicit delta rule: S_t minimises |X - S_{t-1}|^2 + beta_t |X k_t - v_t|^2 over X (Liu et al. 2024, arXiv
// 2407.14207).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(longhorn) {
  return {
      .summary = "delta rule with an implicit step: stable at any rate and any length of key",
      .does = "the delta rule at a rate that the key's length bounds",
      .family = Family::erases,
      .law = R"(
    beta = sigmoid(token)
    S += (beta / (1 + beta k^T k)) (v - S k) k^T
    read S q)",
      .source = "Liu et al. 2024, arXiv 2407.14207",
      .notes =
          "This is the exact solution. The released code (longhorn_diagonal) takes S * (1 - D k^2) + D v k^T entry by entry, D = sigmoid / (1 + "
          "sigmoid k.k) a value channel: the same for one-hot keys alone.",
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{"beta"}}};
}
