// Attention by any kernel: o_t = sum_{j <= t} kappa(q_t.k_j / sqrt(d)) v_j, divided by the row's sum if
// row_norm is sum (kernels: Zhong et al. 2025, arXiv 2505.19488; Katharopoulos et al. 2020, arXiv
// 2006.16236).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(kernel_attention) {
  return {
      .summary = "attention with a kernel to choose, applied to the product of query and key",
      .does = "attention with another kernel in place of the exponential of softmax",
      .family = Family::keeps,
      .equation =
          "o_t = sum_{j<=t} kappa(q_t.k_j / sqrt(d)) v_j, divided by the sum of the weights if row_norm is sum",
      .source = "kernels of Zhong et al. 2025, arXiv 2505.19488",
      .order_free = true,
      .parts = {kernels({{"kernel", "linear"}}), row_norm("row_norm", "none"), key_norm("none")},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        return m.mix(attend(m, q, k, kernel_of(m, "kernel", "row_norm", m.scale())));
      }};
}
