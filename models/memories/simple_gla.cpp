// Simple GLA: gated linear attention with one decay a token and head, S_t = alpha_t S_{t-1} + v_t k_t^T,
// alpha_t = sigmoid(w.x_t + b)^{1/16} (Yang et al. 2024, arXiv 2312.06635).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory simple_gla() {
  return {.name = "simple_gla",
          .summary = "sum rule in a state with a data-dependent scalar decay",
          .does = "decays the whole state by a data-dependent scalar, then adds",
          .family = Family::adds,
          .equation = "S_t = alpha_t S_{t-1} + v_t phi(k_t)^T, o = S phi(q)",
          .laws = "alpha_t = sigmoid(w.token + b)^(1/16)",
          .source = "Yang et al. 2024, arXiv 2312.06635",
          .notes = "gla with one decay for all key channels of a head.",
          .bounded_by_rank = true,
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}}},
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto g =
                    m.input("log_decay", [&] { return (1.0 / 16) * log_sigmoid(m.token("decay")); });
                return read(m, q, {.key = k, .log_decay = g});
              },
          .published = {
              .source = "Yang et al. 2024, arXiv 2312.06635; fla-org/flash-linear-attention@bc3b101d "
                        "fla/layers/simple_gla.py",
              .set = {{"model.short_conv", "qkv"},
                      {"model.silu", "qkv"},
                      {"model.biases", "-out_gate"},
                      {"model.out_norm", "rms"},
                      {"model.out_norm_gain", "shared"},
                      {"model.out_gate", "silu"}},
              .eps_times = HeadChannels::keys,
              .parameters = 21410,
          }};
}

}  // namespace crosstalk::memories
