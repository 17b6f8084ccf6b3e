// Mamba-2's memory (Dao and Gu 2024, arXiv 2405.21060; q, k, v are its C, B, x).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mamba2) {
  return {
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
          .source = fla_layers("mamba2.py"),
          .settings = "short_conv=qkv, silu=qkv, short_conv_bias=true, key_groups=1, "
                      "biases=-out_gate, out_skip=head, out_norm=rms_all, out_norm_order=after, "
                      "out_gate=silu",
          .expand_k = 0.5,
          .expand_v = 2,
          .parameters = 27686,
          .undecayed = {"A_log", "step.bias", "out_skip"},
          .lacks = {
              {"a state of 128 numbers a value channel (here a quarter of the width; model.d_key = 128 model.heads sets it)",
               "a state 8 times smaller at width 64: it holds less where the state decides"},
              {"maps that start as nn.Linear does, the output's smaller the more layers there are",
               "the first steps of training differ"}}}};
}
