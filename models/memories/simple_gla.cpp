// Simple GLA: gated linear attention with one decay a token and head (Yang et al. 2024, arXiv 2312.06635).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(simple_gla) {
  return {.summary = "sum rule in a state with a data-dependent scalar decay",
          .does = "decays the whole state by a data-dependent scalar, then adds",
          .family = Family::adds,
          .law = R"(
    decay = token
    log_decay = 0.0625 log_sigmoid(decay)
    S = exp(log_decay) S + v k^T
    read S q)",
          .source = "Yang et al. 2024, arXiv 2312.06635",
          .notes = "gla with one decay for all key channels of a head.",
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{"log_decay"}},
          .published = {.source = fla_layers("simple_gla.py"),
                        .settings = convolved_layer("uniform", "biases=-out_gate", "silu"),
                        .eps_times = HeadChannels::keys,
                        .parameters = 21410}};
}
