// Fast weights with decays on both sides (Mao 2022, arXiv 2210.04243).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(dfw) {
  return {
      .summary = "sum rule with a decay for every key channel and every value channel",
      .does = "decays key channels and value channels, then adds",
      .family = Family::adds,
      .law = R"(
    decay = token(K)
    log_decay = log_sigmoid(decay)
    value_decay = token(V)
    log_decay_v = log_sigmoid(value_decay)
    S = diag(exp(log_decay_v)) S diag(exp(log_decay)) + v k^T
    read S q)",
      .source = "Mao 2022, arXiv 2210.04243",
      .notes =
          "A row of the state is a recurrence of its own, so a sequence costs the product of both sizes at every token, in every model.",
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{"log_decay"}, {"log_decay_v"}}};
}
