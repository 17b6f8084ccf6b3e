// Preconditioned Gated DeltaNet: Gated DeltaNet that writes along M_t * k_t, where M_t shrinks key channels that were
// written much: S' = alpha_t S_{t-1}, S_t = S' + beta_t (v_t - S' k_t) (M_t * k_t)^T (arXiv 2604.21100).
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/precond.h"

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
          .options = {precond::squash()},
          .inputs = precond::inputs(Per::token),
          .states = {"S", "A"},
          .state = precond::state,
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto beta = beta_gate(m);
                return precond::read_written(m, q, k, beta, mamba_decay(m));
              },
          .published = {
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
