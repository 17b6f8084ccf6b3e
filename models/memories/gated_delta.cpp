// Gated DeltaNet (Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464, eq. 10); its decay is that of Mamba-2.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gated_delta) {
  return {.summary = "delta rule in a state with a data-dependent scalar decay",
          .does = "decays the whole state by a data-dependent scalar, then the delta rule (Gated DeltaNet)",
          .family = Family::erases,
          .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    P = exp(log_decay) S
    S = P + beta (v - (predict == "decayed" ? P : S) k) k^T
    read S q)",
          .source = "Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464",
          .notes = "predict \"undecayed\": what is taken out is S_{t-1} k_t, as in Comba.",
          .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
          .options = {choice("predict", "decayed", "which state the prediction of v_t reads",
                             {"decayed", "undecayed"})},
          .inputs = {{"log_decay"}, {"beta"}},
          .published = {
              .source = fla_layers("gated_deltanet.py"),
              .settings = convolved_layer("normal", "biases=-beta -out_gate, memory.rate_from=0.0", "silu"),
              .expand_v = 2,
              .eps_times = HeadChannels::keys,
              .parameters = 34116,
              .undecayed = {"A_log", "decay.bias"}}};
}
