// Preconditioned Gated DeltaNet: Gated DeltaNet that writes along M_t * k_t, where M_t shrinks key channels that were
// written much: S' = alpha_t S_{t-1}, S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory precond_gated_delta() {
  return {.name = "precond_gated_delta",
          .summary = "gated delta rule that writes less along key channels that were used much",
          .does = "a scalar decay, then the delta rule, writing less along key channels that were used much",
          .family = Family::erases,
          .equation =
              "S' = alpha_t S_{t-1}, S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T, o = S q, A_t = "
              "e^{g_t} A_{t-1} + b_t k_t^2, M_t = x^(-r / (1 + |r|)), r = log(A_t + 1e-6) - c, x = "
              "squash",
          .laws = "alpha_t, beta_t as in gated_delta, g_t and b_t by the same laws, c = -0.2 at the start",
          .source = "Preconditioned DeltaNet 2026, arXiv 2604.21100",
          .notes = "squash = 1 is Gated DeltaNet.",
          .bounded_by_rank = true,
          .flops = flops::weights<14>,
          .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
          .options = {{.name = "squash",
                       .default_value = 1.5,
                       .help = "M lies between 1 / squash and squash (x)",
                       .min = 1,
                       .max = 2,
                       .tried = {1.0, 1.5}}},
          .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                     {.name = "beta", .range = {0.05, 0.95}},
                     {.name = "log_decay_a", .symbol = "g", .range = {-1.5, -0.01, -20}},
                     {.name = "beta_a", .symbol = "b", .range = {0.05, 0.95}},
                     {.name = "center", .per = Per::head, .symbol = "c", .open = Open{0}},
                     {.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,K]"}},
          .states = {"S", "A"},
          .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t) { return K * (V + 1); },
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto beta = beta_gate(m);
                const auto g = mamba_decay(m);
                const auto g_a = m.input("log_decay_a", [&] { return mamba_law(m, 1, "_a"); });
                const auto beta_a = m.input("beta_a", [&] { return sigmoid(m.token("beta_a")); });
                const auto center =
                    m.input("center", [&] { return m.parameter("center", {m.H}, Init::constant(-0.2)); });
                const auto used = scan(expand(g_a, {m.B, m.T, m.H, m.K}), beta_a * (k * k), m.start("A"));
                if (m.wants_end()) m.end("A", last_token(used));
                const auto r = log(1e-6 + used) - center;
                const auto precondition = exp(map(MapKind::softsign, r, -std::log(m.number("squash"))));
                return read(m, q,
                            {.key = precondition * k,
                             .gain = beta,
                             .log_decay = g,
                             .erase = Erase::tied,
                             .erase_read = k,
                             .erase_gain = beta});
              },
          .published =
              {
                  .source = "Preconditioned DeltaNet 2026, arXiv 2604.21100; "
                            "fla-org/flash-linear-attention@bc3b101d fla/layers/precond_gated_deltanet.py",
                  .set = {{"model.short_conv", "qkv"},
                          {"model.silu", "qkv"},
                          {"model.biases", "-beta -beta_a -out_gate"},
                          {"memory.rate_from", 0.0},
                          {"model.out_norm", "rms"},
                          {"model.out_norm_gain", "shared"},
                          {"model.out_gate", "silu"}},
                  .expand_v = 2,
                  .eps_times = HeadChannels::keys,
                  .parameters = 34378,
              }};
}

}  // namespace crosstalk::memories
