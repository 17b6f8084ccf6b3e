// Comba: a gated delta rule whose prediction reads the undecayed state along a key of its own (Hu et al. 2025, arXiv 2506.02475). A
// query beside the sequence has no such key.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory comba() {
  return {
      .name = "comba",
      .summary = "gated delta rule with a feedback key of its own and a corrected query",
      .does = "erases along a feedback key, retrieves with a corrected query",
      .family = Family::erases,
      .law = R"(
    S = exp(log_decay) S + beta (v - S erase_key) k^T
    read S (q - scale correction erase_key))",
      .laws = "erase_key = sigmoid(d_h) k; log_decay, beta as in gated_delta",
      .source = "Hu et al. 2025, arXiv 2506.02475",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .inputs = {{.name = "log_decay", .range = {-1.5, -0.01, -20}},
                 {.name = "beta", .range = {0.05, 0.95}},
                 {.name = "erase_key", .per = Per::key, .open = Open{0, 1}, .range = {-0.9, 0.9}},
                 {.name = "correction", .per = Per::head, .optional = true}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = beta_gate(m);
            const auto g = mamba_decay(m);
            const auto key = k;
            const auto p = m.input("erase_key", [&] {
              const auto inner = sigmoid(m.parameter("inner_decay", {m.H}, Init::constant(1)));
              return inner * key;
            });
            auto asked = q;
            if (m.has_input("correction"))
              asked = q - (m.query_scale() *
                           m.input("correction",
                                   [&] { return m.parameter("correction", {m.H}, Init::constant(1)); })) *
                              m.at_queries(p);
            return read(m, asked,
                        {.key = k,
                         .gain = beta,
                         .log_decay = g,
                         .erase = Erase::tied,
                         .erase_read = p,
                         .erase_gain = beta,
                         .decayed = false});
          },
      .published = {
          .source =
              "Hu et al. 2025, arXiv 2506.02475; fla-org/flash-linear-attention@bc3b101d fla/layers/comba.py",
          .set = {{"model.short_conv", "qkv"},
                  {"model.silu", "qkv"},
                  {"model.biases", "-beta -out_gate"},
                  {"memory.rate_from", 0.0},
                  {"model.out_norm", "rms"},
                  {"model.out_norm_gain", "shared"},
                  {"model.out_gate", "sigmoid"}},
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 34120,
          .lacks = "the second normalisation of the feedback key, which its kernels do",
      }};
}

}  // namespace crosstalk::memories
