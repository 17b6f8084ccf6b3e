// RWKV-7: S_t = S_{t-1} (Diag(alpha_t) - kappa_t (a_t * kappa_t)^T) + v_t k_t^T, o_t = S_t q_t (Peng et al.
// 2025, arXiv 2503.14456), with kappa = unit(k * u), k_t = k * (1 + (a - 1) * c), alpha = exp(-e^{-1/2}
// sigmoid(W2 W1 x)).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory rwkv7() {
  return {
      .name = "rwkv7",
      .summary = "erases along one key and writes along another, with rates for every channel",
      .does = "erases along one key at rates a channel, writes along another",
      .family = Family::erases,
      .equation = "S_t = S_{t-1} Diag(alpha_t) - (S_{t-1} kappa_t)(a_t * kappa_t)^T + v_t k_t^T, o = S q",
      .laws =
          "kappa = unit(k * u), a = sigmoid(W2 W1 token + b), alpha = exp(-exp(-1/2) sigmoid(W4 W3 "
          "token + b'))",
      .source = "Peng et al. 2025, arXiv 2503.14456",
      .bounded_by_rank = true,
      .flops = flops::weights<22>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "erase_key",
                  .per = Per::key,
                  .symbol = "kappa",
                  .open = Open{0, 1},
                  .range = {-0.9, 0.9}},
                 {.name = "in_context_rate", .per = Per::key, .symbol = "a", .range = {0.05, 0.95}}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        auto key = k;
        const auto g = m.input("log_decay",
                               [&] { return -0.6065306597126334 * sigmoid(m.token("decay", m.K, {}, m.d)); });
        const auto kappa = m.input("erase_key", [&] {
          return unit(key * m.parameter("erase_scale", {m.H, m.K}, Init::constant(0.85)));
        });
        const auto rate = m.input("in_context_rate", [&] { return sigmoid(m.token("rate", m.K, {}, m.d)); });
        if (m.learned())
          key = key * (1.0 + (-1.0 + rate) * m.parameter("key_mix", {m.H, m.K}, Init::constant(1)));
        return read(m, q,
                    {.key = key,
                     .log_decay = g,
                     .erase = Erase::free,
                     .erase_read = kappa,
                     .erase_write = rate * kappa,
                     .decayed = false});
      }};
}

}  // namespace crosstalk::memories
