// Preconditioned KDA: it writes along M * k, where M shrinks key channels that were written much (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(precond_kda) {
  return {
      .summary =
          "delta rule with a decay for every key channel that writes less along channels that were used much",
      .does =
          "decays every key channel, then the delta rule, writing less along channels that were used much",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(log_uniform(1, 16))
    decay = token(K, rank = d, bias = start == "zero" ? constant(0) : inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    A_log_a = parameter(log_uniform(1, 16))
    decay_a = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay_a = -(exp(A_log_a) softplus(decay_a))
    beta_a = sigmoid(token)
    center = parameter(constant(-0.2))
    state A[K]
    A = exp(log_decay_a) A + beta_a (k * k)
    r = log(1e-6 + A) - center
    M = squash^(-(r / (1 + abs(r))))
    S = S diag(exp(log_decay))
    S += beta (v - S k) (M * k)^T
    read S q)",
      .source = "Preconditioned DeltaNet 2026, arXiv 2604.21100",
      .notes = "squash = 1 is KDA.",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options =
          {number("squash", 1.5, "M lies between 1 / squash and squash (x)", 1, 2, {1.0, 1.5}),
           choice(
               "start", "zero",
               "biases of the decay: 0, which forgets within a token, or as in kda and in its authors' model (steps of 1e-3 .. 0.1)",
               {"zero", "steps"})},
      .inputs = {{"log_decay"}, {"beta"}, {"log_decay_a"}, {"beta_a"}, {.name = "center", .open = Open{0}}},
      .published = {
          .source = fla_layers("precond_kda.py"),
          .settings = convolved_layer("normal", "memory.start=steps, biases=-beta -beta_a", "low rank"),
          .eps_times = HeadChannels::keys,
          .parameters = 25896,
          .undecayed = {"A_log", "A_log_a", "decay.bias", "decay_a.bias", "center"}}};
}
