// Momentum DeltaNet: errors of the delta rule go into a momentum, which goes into a state that decays (arXiv 2605.05838).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(momentum_deltanet) {
  return {
      .summary = "gated delta rule with momentum, whose gates allow complex eigenvalues",
      .does = "adds the error to a momentum that decays, and that to a state that decays",
      .family = Family::erases,
      .law = R"(
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    Mu_log = parameter(log_uniform(rate_from, 16))
    mu = token(bias = inverse_softplus(1e-3, 0.1))
    log_mu = max(-(exp(Mu_log) softplus(mu)), -2)
    eta = 1 + tanh(token / sqrt(width))
    log_factor = parameter(log_uniform(rate_from, 4))
    tangent = (eta exp(log_factor))^2
    log_decay = -(exp(A_log) softplus(decay)) - log(1 + tangent)
    beta = beta_max sigmoid(token) tangent / (1 + tangent)
    correction = exp(parameter(log_uniform(rate_from, 1)))
    key = unit(k)
    state M[V, K]
    M = exp(log_mu) M + eta (exp(log_decay) S key - v) key^T
    S = exp(log_decay) S - beta M
    read scale S unit(beside ? q : q / scale - correction k))",
      .source = "Huang et al. 2026, arXiv 2605.05838",
      .notes =
          "S is the state and M the momentum; tangent is the square of that of the angle which beta and the decay share.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none"), beta_max(), rate_from()},
      .inputs = {{"log_decay"},
                 {"log_mu"},
                 {.name = "eta", .range = {0.1, 1.9}},
                 {"beta"},
                 {.name = "correction", .per = Per::head, .optional = true, .open = Open{0}}},
      .forms_state = true,
      .published = {
          .source = "; fla-org/flash-linear-attention@19a1c0bb fla/layers/momentum_deltanet.py",
          .settings = convolved_layer("uniform", "biases=-beta -eta -out_gate, memory.rate_from=0.0", "silu"),
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 34380,
          .undecayed = {"A_log", "Mu_log", "log_factor", "correction", "decay.bias", "mu.bias"},
          .lacks = {{"the biases of mu and of the decay starting as the same numbers",
                     "both start by the same law, as numbers of their own"}}}};
}
