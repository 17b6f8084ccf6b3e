// MesaNet's memory: S_t = gamma_t S_{t-1} + beta_t v_t k_t^T, H_t = gamma_t H_{t-1} + beta_t k_t k_t^T,
// o = S (H + Diag(ridge))^{-1} q, what a linear map learns from the tokens so far in the limit (von Oswald et
// al. 2025, arXiv 2506.05233).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mesa) {
  return {
      .summary = "MesaNet: the ridge regression of values on keys, solved for every query",
      .does = "adds to two sums; a query solves the ridge regression of values on keys (MesaNet)",
      .family = Family::own_law,
      .law = R"(
    decay = token
    log_decay = log_sigmoid(decay)
    beta = sigmoid(token)
    ridge = 0.25 + softplus(parameter(K, constant(0.11064653495964616)))
    state H[K, K]
    S = exp(log_decay) S + beta v k^T
    H = exp(log_decay) H + beta k k^T
    read S solve(H + diag(ridge), q))",
      .source = "von Oswald et al. 2025, arXiv 2506.05233",
      .notes =
          "ridge starts at 1. Conjugate gradients from 0, `iterations` of them, with a division by 0 that gives 0; the "
          "gradient is that of the exact solution.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("l2")},
      .options = {{"iterations", 30, "conjugate gradients a query", 1, 10000}},
      .inputs = {{"log_decay"}, {"beta"}, {.name = "ridge", .open = Open{1e-3}, .range = {0.3, 1.3}}},
      .forms_state = true,
      .published = {.source = fla_layers("mesa_net.py"),
                    .settings = "short_conv=qk, silu=qk, short_conv_start=normal, out_norm=rms, "
                                "out_norm_gain=shared",
                    .parameters = 17252,
                    .undecayed = {"ridge"},
                    .lacks = {{"the 1e-5 in the divisors of its conjugate gradients",
                               "the loss of a small model differs by 3e-5"}}}};
}
