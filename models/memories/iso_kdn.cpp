// Isotropic Kalman Delta Network: KDA whose write strength is the Kalman gain of a posterior of one precision c a head (2609.07816).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(iso_kdn) {
  return {
      .summary = "KDA that writes as strongly as a Kalman filter of one precision a head says",
      .does =
          "decays every key channel, then the delta rule at the gain of a Kalman filter with one precision",
      .family = Family::erases,
      .law = R"(
    A_log = parameter(log_uniform(1, 16))
    decay = token(K, rank = d, bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    omega = softplus(token(bias = 0))
    r = 0.01 + softplus(token(bias = 0))
    prior = 0.1 + softplus(parameter(constant(0.37816455709127783)))
    state d[1]
    z = mean(exp(2 log_decay)) / (prior + d) + omega
    beta = z / (r + z k^T k)
    d = 1 / z + information (k^T k) / r - prior
    S = S diag(exp(log_decay))
    S += beta (v - S k) k^T
    read S q)",
      .source = "Kalman Delta Networks 2026, arXiv 2609.07816",
      .notes = "prior + d is the precision; prior, what it is before the first token, starts at 1.",
      .parts = {feature_map("identity"), key_norm("l2")},
      .options = {number("information", 1.0,
                         "what a key of length 1 adds to the precision, as a multiple of 1 / r", 1e-6, 1e6,
                         {1.0, 0.25})},
      .inputs = {{"log_decay"},
                 {"omega"},
                 {.name = "r", .open = Open{1e-9}},
                 {.name = "prior", .per = Per::head, .open = Open{1}},
                 {.name = "d0", .per = Per::other, .optional = true, .shape = "[B,H,1]"}},
      .states = {"S", "d"},
      .published = {.source = "fla-org/flash-linear-attention@0daf3dbe fla/layers/iso_kdn.py",
                    .settings = convolved_layer("uniform", "", "low rank"),
                    .eps_times = HeadChannels::keys,
                    .parameters = 25768,
                    .undecayed = {"A_log", "decay.bias", "omega.bias", "r.bias", "prior"}}};
}
