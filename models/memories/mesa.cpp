// MesaNet's memory: S_t = gamma_t S_{t-1} + beta_t v_t k_t^T, H_t = gamma_t H_{t-1} + beta_t k_t k_t^T,
// o = S (H + Diag(ridge))^{-1} q, what a linear map learns from the tokens so far in the limit (von Oswald et
// al. 2025, arXiv 2506.05233).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory mesa() {
  return {.name = "mesa",
          .summary = "MesaNet: the ridge regression of values on keys, solved for every query",
          .does = "adds to two sums; a query solves the ridge regression of values on keys (MesaNet)",
          .family = Family::own_law,
          .equation =
              "S_t = gamma_t S_{t-1} + beta_t v_t k_t^T, H_t = gamma_t H_{t-1} + beta_t k_t k_t^T, o = "
              "S (H + Diag(ridge))^{-1} q",
          .laws =
              "gamma_t = sigmoid(w.token + b), beta_t = sigmoid(w.token + b), ridge = 0.25 + "
              "softplus(b), 1 at the start",
          .source = "von Oswald et al. 2025, arXiv 2506.05233",
          .notes =
              "Conjugate gradients from 0, `iterations` of them, with a division by 0 that gives 0; the "
              "gradient is that of the exact solution.",
          .bounded_by_rank = true,
          .flops =
              [](const Options& o, double K, double, double T, double Q) {
                const auto iterations = static_cast<double>(o.get_int("memory.iterations"));
                return 6 * K * T * Q + 12 * K * K * T + 12 * K * K * iterations * Q;
              },
          .parts = {feature_map("identity"), key_norm("l2")},
          .options = {{"iterations", std::int64_t{30}, "conjugate gradients a query", 1, 10000}},
          .inputs = {{.name = "log_decay", .symbol = "log gamma", .range = {-1.5, -0.01, -20}},
                     {.name = "beta", .range = {0.05, 0.95}},
                     {.name = "ridge", .per = Per::head_key, .open = Open{1e-3}, .range = {0.3, 1.3}},
                     {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,K,K]"}},
          .states = {"S", "H"},
          .forms_state = true,
          .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t) { return (V + K) * K; },
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto g = m.input("log_decay", [&] { return log_sigmoid(m.token("decay")); });
                const auto beta = m.input("beta", [&] { return sigmoid(m.token("beta")); });
                const auto ridge = m.input("ridge", [&] {
                  const double at_one = std::log(std::expm1(0.75));
                  return 0.25 + softplus(m.parameter("ridge", {m.H, m.K}, Init::constant(at_one)));
                });
                return ridge_read(m, q, k, beta, g, ridge, m.integer("iterations"));
              },
          .published =
              {
                  .source = "von Oswald et al. 2025, arXiv 2506.05233; "
                            "fla-org/flash-linear-attention@bc3b101d fla/layers/mesa_net.py",
                  .set = {{"model.short_conv", "qk"},
                          {"model.silu", "qk"},
                          {"model.out_norm", "rms"},
                          {"model.out_norm_gain", "shared"}},
                  .parameters = 17252,
              }};
}

}  // namespace crosstalk::memories
