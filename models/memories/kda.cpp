// Kimi Delta Attention (Kimi Linear 2025, arXiv 2510.26692, eq. 1).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(kda) {
  return {
      .summary = "gated delta rule with a decay for every key channel",
      .does = "decays every key channel, then the delta rule (Kimi Delta Attention)",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(rate == "drawn" ? log_uniform(1, 16) : constant(0))
    decay = token(K, rank = d, bias = inverse_softplus(1e-3, 0.1))
    log_decay = gate == "softplus" ? -(exp(A_log) softplus(decay)) : -5 sigmoid(exp(A_log) decay)
    S = S diag(exp(log_decay))
    S += beta (v - S k) k^T
    read S q)",
      .source = "Kimi team 2025, arXiv 2510.26692",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options =
          {choice("gate", "softplus",
                  "law of the decay: as Mamba-2's, or bounded below by e^-5 (what fast kernels want)",
                  {"softplus", "bounded"}),
           {"rate",
            std::string(),
            "how e^A starts: U(1, 16) (drawn) or 1 (one); by default drawn where the gate is softplus and "
            "one where it is bounded, which U(1, 16) would start all but without decay",
            0,
            0,
            {"", "drawn", "one"}}},
      .inputs = {{"log_decay"}, {"beta"}},
      .check =
          [](Options& o) {
            if (!o.get_string("memory.rate").empty()) return;
            o.set("memory.rate", std::string(o.get_string("memory.gate") == "softplus" ? "drawn" : "one"));
          },
      .published = {.source = fla_layers("kda.py"),
                    .settings = convolved_layer("normal", "biases=-beta", "low rank"),
                    .eps_times = HeadChannels::keys,
                    .parameters = 25634,
                    .undecayed = {"A_log", "decay.bias"}}};
}
