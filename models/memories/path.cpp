// PaTH: positions carried by reflections, logits q_i.(H_i H_{i-1} .. H_{j+1} k_j) / sqrt(d) with H_t = I - beta_t w_t w_t^T
// (Yang et al. 2025, arXiv 2505.16381).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/parts/path_key.h"

CROSSTALK_MEMORY(path) {
  return {
      .summary = "softmax attention whose keys are reflected by the tokens that follow them",
      .does =
          "softmax attention in which each token reflects all earlier keys (products of Householder matrices)",
      .family = Family::keeps,
      .equation =
          "o_i = sum_j softmax_j(q_i.(H_i H_{i-1} .. H_{j+1} k_j) / sqrt(d)) v_j, H_t = I - beta_t w_t w_t^T",
      .laws =
          "w = unit(silu(W2 W1 token + b)), after a convolution of W2 W1 token + b where path_conv says so, beta = beta_max sigmoid(w.token + b)",
      .source = "Yang et al. 2025, arXiv 2505.16381",
      .notes =
          "The short convolution that the paper has before w is off by default: a token of the retrieval model is a whole association.",
      .flops = path_flops,
      .parts = {beta_max(2), path_conv()},
      .inputs = {{.name = "path_key", .per = Per::key, .symbol = "w", .open = Open{0, 1}, .unit = true},
                 {.name = "beta", .open = Open{0}, .range = {0.05, 0.95}}},
      .projection_init = ProjectionInit::xavier,
      .state = path_state,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto w = m.input("path_key", [&] { return path_key(m); });
            return m.mix(attend_reflected(m, q, k, w, beta_gate(m)));
          },
      .published = {.source = fla_layers("path_attn.py"),
                    .settings = "memory.path_conv=3, memory.path_conv_start=normal, biases=-path_key",
                    .parameters = 20802}};
}
