// Mamba-2's memory: S_t = alpha_t S_{t-1} + step_t v_t k_t^T, alpha_t = e^{-A step_t} (Dao and Gu 2024,
// arXiv 2405.21060;
// q, k, v are its C, B, x).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory mamba2() {
  return {.name = "mamba2",
          .summary = "sum rule whose data-dependent step size sets both the write and the decay",
          .does = "decay and write strength both follow from a data-dependent step size",
          .family = Family::adds,
          .equation = "S_t = alpha_t S_{t-1} + step_t v_t phi(k_t)^T, o = S phi(q)",
          .laws = "step_t = softplus(w.token + b), alpha_t = exp(-e^A step_t)",
          .source = "Dao and Gu 2024, arXiv 2405.21060",
          .bounded_by_rank = true,
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                     {.name = "step", .range = {0.05, 0.95}}},
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto step = m.input(
                    "step", [&] { return softplus(m.token("step", 1, Init::inverse_softplus(1e-3, 0.1))); });
                const auto g = m.input("log_decay", [&] {
                  return -exp(m.parameter("A_log", {m.H}, Init::log_uniform(1, 16))) * step;
                });
                return read(m, q, {.key = k, .gain = step, .log_decay = g});
              },
          .published = {
              .source = "Dao and Gu 2024, arXiv 2405.21060; fla-org/flash-linear-attention@bc3b101d "
                        "fla/layers/mamba2.py",
              .set = {{"model.short_conv", "qkv"},
                      {"model.silu", "qkv"},
                      {"model.short_conv_bias", true},
                      {"model.key_groups", std::int64_t{1}},
                      {"model.biases", "-out_gate"},
                      {"model.out_skip", "head"},
                      {"model.out_norm", "rms_all"},
                      {"model.out_norm_order", "after"},
                      {"model.out_gate", "silu"}},
              .expand_k = 0.5,
              .expand_v = 2,
              .parameters = 27686,
              .lacks = "a state of 128 (here 16 with heads of 64; model.d_key sets it)",
          }};
}

}  // namespace crosstalk::memories
