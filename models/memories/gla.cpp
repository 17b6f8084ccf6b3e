// Gated linear attention (Yang et al. 2024, arXiv 2312.06635, eqs 3 and 4).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gla) {
  return {.summary = "sum rule with a decay for every key channel",
          .does = "decays every key channel by a data-dependent rate of its own, then adds",
          .family = Family::adds,
          .law = R"(
    decay = token(K, rank = 16)
    log_decay = 0.0625 log_sigmoid(decay)
    S = S diag(exp(log_decay)) + v k^T
    read S q)",
          .source = "Yang et al. 2024, arXiv 2312.06635",
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{"log_decay"}},
          .published = {.source = fla_layers("gla.py"),
                        .settings = "biases=-out_gate, out_norm=rms, out_norm_gain=shared, out_gate=silu",
                        .expand_k = 0.5,
                        .eps_times = HeadChannels::keys,
                        .parameters = 17984}};
}
