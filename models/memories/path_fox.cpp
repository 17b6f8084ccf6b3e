// PaTH-FoX: PaTH's reflections and a forget gate, logits q_i.(H_i H_{i-1} .. H_{j+1} k_j) / sqrt(d) + sum_{s=j+1..i}
// log f_s with H_t = I - beta_t w_t w_t^T (Yang et al. 2025, arXiv 2505.16381).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/parts/path_key.h"

CROSSTALK_MEMORY(path_fox) {
  return {
      .summary = "softmax attention along a path of reflections that forgets as the tokens say",
      .does = "the reflections of path with the forget gate of fox",
      .family = Family::keeps,
      .equation =
          "o_i = sum_j softmax_j(q_i.(H_i H_{i-1} .. H_{j+1} k_j) / sqrt(d) + sum_{s=j+1..i} log f_s) v_j, H_t = I - beta_t w_t w_t^T",
      .laws =
          "w = unit(silu(W2 W1 token + b)), after a convolution of W2 W1 token + b where path_conv says so, beta = beta_max sigmoid(w.token + b), f "
          "= sigmoid(w.token + b), log f / sqrt(d) where gate_scale is key",
      .source = "Yang et al. 2025, arXiv 2505.16381",
      .notes =
          "The short convolution that the paper has before w is off by default: a token of the retrieval model is a whole association. In the paper "
          "log f stands beside the logits that are divided by sqrt(d); its authors' code divides both, so that heads of 32 numbers start with a "
          "half-life of 6 tokens in place of 1.",
      .flops = path_flops,
      .parts = {beta_max(2), path_conv()},
      .options = {choice(
          "gate_scale", "one",
          "what log f is multiplied by: 1 as in the paper (one), or 1 / sqrt(d) as the logits are in its authors' code (key)",
          {"one", "key"})},
      .inputs = {{.name = "path_key", .per = Per::key, .symbol = "w", .open = Open{0, 1}, .unit = true},
                 {.name = "beta", .open = Open{0}, .range = {0.05, 0.95}},
                 {.name = "log_decay", .symbol = "log f", .range = {-1.5, -0.01, -20}}},
      .projection_init = ProjectionInit::xavier,
      .state = path_state,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto w = m.input("path_key", [&] { return path_key(m); });
            const auto g = m.input("log_decay", [&] {
              const auto log_f = log_sigmoid(m.token("forget"));
              return m.text("gate_scale") == "key" ? m.scale() * log_f : log_f;
            });
            return m.mix(attend_reflected(m, q, k, w, beta_gate(m), g));
          },
      .published = {.source = fla_layers("path_attn.py"),
                    .settings = "memory.path_conv=3, memory.path_conv_start=normal, memory.gate_scale=key, "
                                "biases=-path_key",
                    .parameters = 20932}};
}
