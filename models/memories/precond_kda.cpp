// Preconditioned KDA: Kimi Delta Attention that writes along M_t * k_t, where M_t shrinks key channels that were written
// much: S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory precond_kda() {
  return {
      .name = "precond_kda",
      .summary =
          "delta rule with a decay for every key channel that writes less along channels that were used much",
      .does =
          "decays every key channel, then the delta rule, writing less along channels that were used much",
      .family = Family::erases,
      .equation =
          "S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T, o = S q, A_t = "
          "e^{g_t} A_{t-1} + b_t k_t^2, M_t = x^(-r / (1 + |r|)), r = log(A_t + 1e-6) - c, x = "
          "squash",
      .laws =
          "alpha_t, beta_t as in kda (gate start: the biases of alpha are 0, or as in kda), g_t and b_t as "
          "in "
          "precond_gated_delta, c = -0.2 at the start",
      .source = "Preconditioned DeltaNet 2026, arXiv 2604.21100",
      .notes = "squash = 1 is KDA.",
      .bounded_by_rank = true,
      .flops = flops::weights<18>,
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options = {{.name = "squash",
                   .default_value = 1.5,
                   .help = "M lies between 1 / squash and squash (x)",
                   .min = 1,
                   .max = 2,
                   .tried = {1.0, 1.5}},
                  {"start",
                   std::string("zero"),
                   "biases of the decay: 0, as in the released layer, or as in kda (steps of 1e-3 .. 0.1)",
                   0,
                   0,
                   {"zero", "steps"}}},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
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
            const auto g = m.input("log_decay", [&] {
              const Init bias =
                  m.text("start") == "zero" ? Init::constant(0) : Init::inverse_softplus(1e-3, 0.1);
              const auto rate = exp(m.parameter("A_log", {m.H}, Init::log_uniform(1, 16)));
              return -rate * softplus(m.token("decay", m.K, bias, m.d));
            });
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
                        "fla-org/flash-linear-attention@bc3b101d fla/layers/precond_kda.py",
              .set = {{"model.short_conv", "qkv"},
                      {"model.silu", "qkv"},
                      {"model.biases", "-beta -beta_a"},
                      {"model.out_norm", "rms"},
                      {"model.out_norm_gain", "shared"},
                      {"model.out_gate", "sigmoid"},
                      {"model.out_gate_rank", std::int64_t{-1}}},
              .eps_times = HeadChannels::keys,
              .parameters = 25896,
          }};
}

}  // namespace crosstalk::memories
