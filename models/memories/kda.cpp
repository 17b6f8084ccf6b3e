// Kimi Delta Attention: S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, alpha_t in R^K
// (Kimi Linear 2025, arXiv 2510.26692, eq. 1).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory kda() {
  return {
      .name = "kda",
      .summary = "gated delta rule with a decay for every key channel",
      .does = "decays every key channel, then the delta rule (Kimi Delta Attention)",
      .family = Family::erases,
      .equation = "S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) k_t^T, o = S q",
      .laws =
          "alpha_t = exp(-e^A softplus(W2 W1 token + b)) (gate bounded: exp(-5 sigmoid(e^A (W2 W1 "
          "token + b)))), beta_t = beta_max sigmoid(w'.token + b')",
      .source = "Kimi team 2025, arXiv 2510.26692",
      .bounded_by_rank = true,
      .flops = flops::weights<18>,
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options =
          {{"gate",
            std::string("softplus"),
            "law of the decay: as Mamba-2's, or bounded below by e^-5 (what fast kernels want)",
            0,
            0,
            {"softplus", "bounded"}},
           {"rate",
            std::string(),
            "how e^A starts: U(1, 16) (drawn) or 1 (one); by default drawn where the gate is softplus and "
            "one where it is bounded, which U(1, 16) would start all but without decay",
            0,
            0,
            {"", "drawn", "one"}}},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "beta", .range = {0.05, 0.95}}},
      .check =
          [](Options& o) {
            if (!o.get_string("memory.rate").empty()) return;
            o.set("memory.rate", std::string(o.get_string("memory.gate") == "softplus" ? "drawn" : "one"));
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = beta_gate(m);
            const auto g = m.input("log_decay", [&] {
              const auto rate = exp(m.parameter(
                  "A_log", {m.H}, m.text("rate") == "drawn" ? Init::log_uniform(1, 16) : Init::constant(0)));
              const auto x = m.token("decay", m.K, Init::inverse_softplus(1e-3, 0.1), int{m.d});
              return m.text("gate") == "softplus" ? -rate * softplus(x) : -5.0 * sigmoid(rate * x);
            });
            return read(m, q, {.key = k, .gain = beta, .log_decay = g, .erase = Erase::delta});
          },
      .published =
          {
              .source = "Kimi team 2025, arXiv 2510.26692; fla-org/flash-linear-attention@bc3b101d "
                        "fla/layers/kda.py",
              .set = {{"model.short_conv", "qkv"},
                      {"model.silu", "qkv"},
                      {"model.biases", "-beta"},
                      {"model.out_norm", "rms"},
                      {"model.out_norm_gain", "shared"},
                      {"model.out_gate", "sigmoid"},
                      {"model.out_gate_rank", std::int64_t{-1}}},
              .eps_times = HeadChannels::keys,
              .parameters = 25634,
          }};
}

}  // namespace crosstalk::memories
