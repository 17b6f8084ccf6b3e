// Gated linear attention: S_t = S_{t-1} Diag(alpha_t) + v_t k_t^T, alpha_t = sigmoid(W2 W1 x)^{1/16} (Yang et
// al. 2024, arXiv 2312.06635, eqs 3 and 4).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gla() {
  return {
      .name = "gla",
      .summary = "sum rule with a decay for every key channel",
      .does = "decays every key channel by a data-dependent rate of its own, then adds",
      .family = Family::adds,
      .equation = "S_t = S_{t-1} Diag(alpha_t) + v_t phi(k_t)^T, o = S phi(q)",
      .laws = "alpha_t = sigmoid(W2 W1 token + b)^(1/16)",
      .source = "Yang et al. 2024, arXiv 2312.06635",
      .bounded_by_rank = true,
      .flops = flops::weights<10>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto g =
                m.input("log_decay", [&] { return (1.0 / 16) * log_sigmoid(m.token("decay", m.K, {}, 16)); });
            return read(m, q, {.key = k, .log_decay = g});
          },
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
