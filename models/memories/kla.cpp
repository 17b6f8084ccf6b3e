// Kalman Linear Attention: every entry of the state is a Kalman filter in information form, of precision 1 + P and E, that times its mean
// (Shaj et al. 2026, arXiv 2602.10743).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(kla) {
  return {
      .summary = "a Kalman filter in every entry of the state, read as its mean",
      .does = "filters every entry of the state as a Kalman filter: precise values move uncertain entries",
      .family = Family::own_law,
      .law = R"(
    step = softplus(parameter(V, K, inverse_softplus(1e-3, 0.1)))
    rate = exp(parameter(V, K, constant(0)))
    log_decay = -(rate * step)
    process = parameter(V, K, constant(0.01))
    noise = max(process, 1e-7) / (2 rate) * (1 - exp(2 log_decay))
    sigma = token(V, rank = width / 8)
    value_precision = 1 / (1e-4 + softplus(sigma))
    state P[V, K]
    state E[V, K]
    L = 1 + P
    D = exp(2 log_decay) + noise * L
    E = exp(log_decay) * E / D + (value_precision * v) k^T
    P = L / D + value_precision (k * k)^T - 1
    read (E / (1 + P)) q)",
      .source = "Shaj et al. 2026, arXiv 2602.10743",
      .notes =
          "noise is that of an Ornstein-Uhlenbeck process; the rank of W2 W1 is an eighth of the token's size, rounded up.",
      .parts = {feature_map("identity"), key_norm("l2")},
      .inputs =
          {{.name = "log_decay", .per = Per::other, .shape = "[H,V,K]", .range = {-1.5, -0.01}},
           {.name = "noise", .per = Per::other, .shape = "[H,V,K]", .open = Open{1}, .range = {0.05, 0.95}},
           {.name = "value_precision", .open = Open{1e9}, .range = {0.05, 0.95}}},
      .forms_state = true,
      .published = {
          .source =
              "; vaisakh-shaj/kalman-linear-attention@20b80d5 src/kla/layers/kla_layer.py, its mamba block",
          .settings = "inner=true, short_conv=v, short_conv_bias=true, silu=v, key_groups=1, "
                      "biases=-sigma -out_gate, out_skip=channel, out_gate=silu",
          .expand_k = 0.5,
          .expand_v = 2,
          .parameters = 37632,
          .undecayed = {"step", "rate"},
          .lacks = {{"the projection of values in its plain block, and its skip's start at -1",
                     "the skip starts at 1: values pass it with the other sign"},
                    {"a state of 16 numbers a value channel at every width (here of heads of 64)",
                     "a smaller or larger one at other heads; model.d_key sets it"}}}};
}
