// Gated DeltaNet: S_t = alpha_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T, o_t = S_t q_t (Yang,
// Kautz, Hatamizadeh 2024, arXiv 2412.06464, eq. 10); alpha_t as in Mamba-2.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gated_delta() {
  return {.name = "gated_delta",
          .summary = "delta rule in a state with a data-dependent scalar decay",
          .does = "decays the whole state by a data-dependent scalar, then the delta rule (Gated DeltaNet)",
          .family = Family::erases,
          .equation = "S' = alpha_t S_{t-1}, S_t = S' + beta_t (v_t - S' k_t) k_t^T, o = S q",
          .laws = "alpha_t = exp(-e^A softplus(w.token + b)), beta_t = beta_max sigmoid(w'.token + b')",
          .source = "Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464",
          .notes = "predict \"undecayed\": what is taken out is S_{t-1} k_t, as in Comba.",
          .bounded_by_rank = true,
          .flops = flops::weights<14>,
          .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
          .options = {{"predict",
                       std::string("decayed"),
                       "which state the prediction of v_t reads",
                       0,
                       0,
                       {"decayed", "undecayed"}}},
          .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                     {.name = "beta", .range = {0.05, 0.95}}},
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto beta = beta_gate(m);
                const auto g = mamba_decay(m);
                return read(m, q,
                            {.key = k,
                             .gain = beta,
                             .log_decay = g,
                             .erase = Erase::delta,
                             .decayed = m.text("predict") == "decayed"});
              },
          .published = {.source = "Yang, Kautz, Hatamizadeh 2024, arXiv 2412.06464; "
                                  "fla-org/flash-linear-attention@bc3b101d fla/layers/gated_deltanet.py",
                        .set = {{"model.short_conv", "qkv"},
                                {"model.silu", "qkv"},
                                {"model.biases", "-beta -out_gate"},
                                {"memory.rate_from", 0.0},
                                {"model.out_norm", "rms"},
                                {"model.out_norm_gain", "shared"},
                                {"model.out_gate", "silu"}},
                        .expand_v = 2,
                        .eps_times = HeadChannels::keys,
                        .parameters = 34116}};
}

}  // namespace crosstalk::memories
