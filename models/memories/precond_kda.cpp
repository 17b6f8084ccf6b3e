// Preconditioned KDA: Kimi Delta Attention that writes along M_t * k_t, where M_t shrinks key channels that were written
// much: S' = S_{t-1} Diag(alpha_t), S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/precond.h"

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
      .options = {precond::squash(),
                  {"start",
                   std::string("zero"),
                   "biases of the decay: 0, as in the released layer, or as in kda (steps of 1e-3 .. 0.1)",
                   0,
                   0,
                   {"zero", "steps"}}},
      .inputs = precond::inputs(Per::key),
      .states = {"S", "A"},
      .state = precond::state,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = beta_gate(m);
            const auto g = m.input("log_decay", [&] {
              const Init bias =
                  m.text("start") == "zero" ? Init::constant(0) : Init::inverse_softplus(1e-3, 0.1);
              const auto rate = exp(m.parameter("A_log", {m.H}, Init::log_uniform(1, 16)));
              return -rate * softplus(m.token("decay", m.K, bias, int{m.d}));
            });
            return precond::read_written(m, q, k, beta, g);
          },
      .published = {
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
