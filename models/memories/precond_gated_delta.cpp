// Preconditioned Gated DeltaNet: it writes along M * k, where M shrinks key channels that were written much (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(precond_gated_delta) {
  return {
      .summary = "gated delta rule that writes less along key channels that were used much",
      .does = "a scalar decay, then the delta rule, writing less along key channels that were used much",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    A_log_a = parameter(log_uniform(rate_from, 16))
    decay_a = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay_a = -(exp(A_log_a) softplus(decay_a))
    beta_a = sigmoid(token)
    center = parameter(constant(-0.2))
    state A[K]
    A = exp(log_decay_a) A + beta_a (k * k)
    r = log(1e-6 + A) - center
    M = squash^(-(r / (1 + abs(r))))
    S = exp(log_decay) S
    S += beta (v - S k) (M * k)^T
    read S q)",
      .source = "Preconditioned DeltaNet 2026, arXiv 2604.21100",
      .notes = "squash = 1 is Gated DeltaNet.",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .options = {number("squash", 1.5, "M lies between 1 / squash and squash (x)", 1, 2, {1.0, 1.5})},
      .inputs = {{"log_decay"}, {"beta"}, {"log_decay_a"}, {"beta_a"}, {.name = "center", .open = Open{0}}},
      .published = {.source = fla_layers("precond_gated_deltanet.py"),
                    .settings = convolved_layer(
                        "normal", "biases=-beta -beta_a -out_gate, memory.rate_from=0.0", "silu"),
                    .expand_v = 2,
                    .eps_times = HeadChannels::keys,
                    .parameters = 34378,
                    .undecayed = {"A_log", "A_log_a", "decay.bias", "decay_a.bias", "center"}}};
}
