// Gated DeltaNet-2, with gates a key channel of what is erased, and a value channel of what is written (arXiv 2605.22791).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gated_delta2) {
  return {.summary = "gated delta rule that erases by key channels and writes by value channels",
          .does = "erases by key channels, writes by value channels (Gated DeltaNet-2)",
          .family = Family::erases,
          .law = R"(
    erase_gate = beta_max sigmoid(token(K))
    write_gate = sigmoid(token(V))
    A_log = parameter(log_uniform(1, 16))
    decay = token(K, rank = d, bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    S = S diag(exp(log_decay))
    S += (write_gate * v - S (erase_gate * k)) k^T
    read S q)",
          .source = "NVIDIA 2026, arXiv 2605.22791",
          .notes = "b_t = w_t = beta_t is KDA.",
          .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
          .inputs = {{"log_decay"}, {"erase_gate"}, {"write_gate"}},
          .published = {.source = fla_layers("gdn2.py"),
                        .settings = convolved_layer("uniform", "biases=-erase_gate -write_gate", "low rank"),
                        .eps_times = HeadChannels::keys,
                        .parameters = 33698,
                        .undecayed = {"A_log", "decay.bias"}}};
}
