// Gated DeltaNet-2: S' = S_{t-1} Diag(alpha_t), S_t = S' + (w_t * v_t - S' (b_t * k_t)) k_t^T with gates b_t in
// R^K of what is erased and w_t in R^V of what is written (arXiv 2605.22791).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gated_delta2() {
  return {
      .name = "gated_delta2",
      .summary = "gated delta rule that erases by key channels and writes by value channels",
      .does = "erases by key channels, writes by value channels (Gated DeltaNet-2)",
      .family = Family::erases,
      .equation = "S' = S_{t-1} Diag(alpha_t), S_t = S' + (w_t * v_t - S' (b_t * k_t)) k_t^T, o = S q",
      .laws =
          "alpha_t = exp(-e^A softplus(W2 W1 token + b)), b_t = beta_max sigmoid(W token + b'), w_t "
          "= sigmoid(W' token + b'')",
      .source = "NVIDIA 2026, arXiv 2605.22791",
      .notes = "b_t = w_t = beta_t is KDA.",
      .bounded_by_rank = true,
      .flops = flops::weights<18>,
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "erase_gate", .per = Per::key, .symbol = "b", .range = {0.05, 0.95}},
                 {.name = "write_gate", .per = Per::value, .symbol = "w", .range = {0.05, 0.95}}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto erase = m.input(
                "erase_gate", [&] { return sigmoid(m.token("erase_gate", m.K), m.number("beta_max")); });
            const auto write = m.input("write_gate", [&] { return sigmoid(m.token("write_gate", m.V)); });
            const auto g = mamba_decay(m, m.K);
            return read(m, q,
                        {.key = k,
                         .value = write * m.values(),
                         .log_decay = g,
                         .erase = Erase::tied,
                         .erase_read = erase * k});
          },
      .published = {
          .source =
              "NVIDIA 2026, arXiv 2605.22791; fla-org/flash-linear-attention@bc3b101d fla/layers/gdn2.py",
          .set = {{"model.short_conv", "qkv"},
                  {"model.silu", "qkv"},
                  {"model.biases", "-erase_gate -write_gate"},
                  {"model.out_norm", "rms"},
                  {"model.out_norm_gain", "shared"},
                  {"model.out_gate", "sigmoid"},
                  {"model.out_gate_rank", std::int64_t{-1}}},
          .eps_times = HeadChannels::keys,
          .parameters = 33698,
      }};
}

}  // namespace crosstalk::memories
