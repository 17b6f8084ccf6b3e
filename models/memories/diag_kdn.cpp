// Diagonal Kalman Delta Network: KDA that writes along the Kalman gain of a posterior with a precision c a key channel (2609.07816).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(diag_kdn) {
  return {
      .summary = "KDA that writes along the gain of a Kalman filter with a precision for every key channel",
      .does =
          "decays every key channel, then the delta rule along the gain of a Kalman filter with a precision a channel",
      .family = Family::erases,
      .law = R"(
    A_log = parameter(log_uniform(1, 16))
    decay = token(K, rank = d, bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    omega = softplus(token(K, rank = d, weights = 0, bias = 0))
    r = 0.01 + softplus(token(bias = 0))
    prior = 0.1 + softplus(parameter(constant(0.37816455709127783)))
    state d[K]
    z = exp(2 log_decay) / (prior + d) + omega
    kappa = z * k / (r + sum(z * k * k))
    d = 1 / z + information sum(ones(K)) (k * k) / r - prior
    S = S diag(exp(log_decay))
    S += (v - S k) kappa^T
    read S q)",
      .source = "Kalman Delta Networks 2026, arXiv 2609.07816",
      .notes = "prior + d is the precision; prior, what it is before the first token, starts at 1.",
      .parts = {feature_map("identity"), key_norm("l2")},
      .options = {number("information", 1.0, "what a key adds to the precision, as a multiple of K k^2 / r",
                         1e-6, 1e6, {1.0, 0.25})},
      .inputs = {{"log_decay"},
                 {"omega"},
                 {.name = "r", .open = Open{1e-9}},
                 {.name = "prior", .per = Per::head, .open = Open{1}}},
      .published = {.source = "fla-org/flash-linear-attention@0daf3dbe fla/layers/diag_kdn.py",
                    .settings = convolved_layer("uniform", "", "low rank"),
                    .eps_times = HeadChannels::keys,
                    .parameters = 29798,
                    .undecayed = {"A_log", "decay.bias", "prior"}}};
}
