// Gated linear attention (Yang et al. 2024, arXiv 2312.06635, eqs 3 and 4).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gla() {
  return {
      .name = "gla",
      .summary = "sum rule with a decay for every key channel",
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
      .published = {
          .source =
              "Yang et al. 2024, arXiv 2312.06635; fla-org/flash-linear-attention@bc3b101d fla/layers/gla.py",
          .set = {{"model.biases", "-out_gate"},
                  {"model.out_norm", "rms"},
                  {"model.out_norm_gain", "shared"},
                  {"model.out_gate", "silu"}},
          .expand_k = 0.5,
          .eps_times = HeadChannels::keys,
          .parameters = 17984}};
}

}  // namespace crosstalk::memories
