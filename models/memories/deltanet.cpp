// DeltaNet: the delta rule with keys and queries silu(.) of length 1 (Yang et al. 2024, arXiv 2406.06484). The same rule as
// delta, which has the defaults of 2021.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(deltanet) {
  return {
      .summary = "delta rule with keys of length 1, as it is trained since 2024",
      .does = "retrieves what the key holds, writes the difference, with keys of length 1, as of 2024",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    S += beta (v - S k) k^T
    read S q)",
      .source = "Yang et al. 2024, arXiv 2406.06484",
      .notes = "The short convolution that it has before silu is model.short_conv.",
      .parts = {feature_map("silu"), key_norm("l2"), beta_max()},
      .inputs = {{"beta"}},
      .published = {.source = fla_layers("delta_net.py"),
                    .settings = convolved_layer("normal", "memory.feature_map=identity, biases=-beta", ""),
                    .eps_times = HeadChannels::keys,
                    .parameters = 17312}};
}
