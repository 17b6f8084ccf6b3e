// Mamba-2's memory (Dao and Gu 2024, arXiv 2405.21060; q, k, v are its C, B, x).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory mamba2() {
  return {
      .name = "mamba2",
      .summary = "sum rule whose data-dependent step size sets both the write and the decay",
      .does = "decay and write strength both follow from a data-dependent step size",
      .family = Family::adds,
      .law = R"(
    step = softplus(token(bias = inverse_softplus(1e-3, 0.1)))
    A_log = parameter(log_uniform(1, 16))
    log_decay = -(exp(A_log) step)
    S = exp(log_decay) S + step v k^T
    read S q)",
      .source = "Dao and Gu 2024, arXiv 2405.21060",
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{"log_decay"}, {"step"}},
      .published = {
          .source =
              "Dao and Gu 2024, arXiv 2405.21060; fla-org/flash-linear-attention@bc3b101d fla/layers/mamba2.py",
          .set = {{"model.short_conv", "qkv"},
                  {"model.silu", "qkv"},
                  {"model.short_conv_bias", true},
                  {"model.key_groups", 1},
                  {"model.biases", "-out_gate"},
                  {"model.out_skip", "head"},
                  {"model.out_norm", "rms_all"},
                  {"model.out_norm_order", "after"},
                  {"model.out_gate", "silu"}},
          .expand_k = 0.5,
          .expand_v = 2,
          .parameters = 27686,
          .undecayed = {"A_log", "step.bias", "out_skip"},
          .lacks =
              {{"a state of 128 numbers a value channel (here a quarter of the width; model.d_key = 128 model.heads sets it)",
                "a state 8 times smaller at width 64: it holds less where the state decides"},
               {"maps that start as nn.Linear does, the output's smaller the more layers there are",
                "the first steps of training differ"}},
      }};
}

}  // namespace crosstalk::memories
