// DeltaNet: the delta rule with keys and queries silu(.) of length 1 (Yang et al. 2024, arXiv 2406.06484). The same rule as
// delta, which has the defaults of 2021.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory deltanet() {
  return {.name = "deltanet",
          .summary = "delta rule with keys of length 1, as it is trained since 2024",
          .does = "retrieves what the key holds, writes the difference, with keys of length 1, as of 2024",
          .family = Family::erases,
          .equation = "S_t = S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T, o = S q",
          .laws =
              "k and q being silu(k), silu(q) divided by their lengths, beta_t = beta_max "
              "sigmoid(w.token + b)",
          .source = "Yang et al. 2024, arXiv 2406.06484",
          .notes = "The short convolution that it has before silu is model.short_conv.",
          .bounded_by_rank = true,
          .flops = flops::weights<14>,
          .parts = {feature_map("silu"), key_norm("l2"), beta_max()},
          .inputs = {{.name = "beta", .range = {0.05, 0.95}}},
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                return read(
                    m, q,
                    {.key = k, .gain = beta_gate(m), .erase = Erase::delta, .contracting = normalised(m)});
              },
          .published = {.source = "Yang et al. 2024, arXiv 2406.06484; "
                                  "fla-org/flash-linear-attention@bc3b101d fla/layers/delta_net.py",
                        .set = {{"model.short_conv", "qkv"},
                                {"model.silu", "qkv"},
                                {"memory.feature_map", "identity"},
                                {"model.biases", "-beta"},
                                {"model.out_norm", "rms"},
                                {"model.out_norm_gain", "shared"}},
                        .eps_times = HeadChannels::keys,
                        .parameters = 17312}};
}

}  // namespace crosstalk::memories
