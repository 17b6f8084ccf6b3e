// DeltaProduct: N delta steps a token, each with its own key and rate; the state fades before the first,
// reads come after the last (Siems et al. 2025, arXiv 2502.10297).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory delta_product() {
  return {
      .name = "delta_product",
      .summary = "several delta steps a token: products of reflections, hence rotations",
      .does = "takes several delta steps: products of reflections",
      .family = Family::erases,
      .equation =
          "S' = alpha_t S_{t-1}; for n = 1 .. N: S' = S' + beta_tn (v_tn - S' k_tn) k_tn^T; S_t = "
          "S', o = S q",
      .laws = "beta_tn = beta_max sigmoid(w_n.token + b_n)",
      .source = "Siems et al. 2025, arXiv 2502.10297",
      .notes =
          "decay \"mamba\" decays as Gated DeltaNet does, \"none\" not at all. In the retrieval "
          "model a token's steps share its value.",
      .bounded_by_rank = true,
      .flops = [](const Options& o, double K, double, double T,
                  double Q) { return 14 * static_cast<double>(o.get_int("memory.writes")) * K * T * Q; },
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .options = {{.name = "writes",
                   .default_value = std::int64_t{2},
                   .help = "delta steps a token (N)",
                   .min = 1,
                   .max = 16,
                   .tried = {1, 2}},
                  {"decay",
                   std::string("none"),
                   "whether the state decays before a token's steps",
                   0,
                   0,
                   {"none", "mamba"}}},
      .inputs = {{.name = "beta", .per = Per::write, .range = {0.05, 0.95}},
                 {.name = "log_decay", .optional = true, .symbol = "log alpha", .range = {-1.5, -0.01, -20}}},
      .check =
          [](Options& o) {
            if (o.has("model.name") && o.get_string("memory.decay") == "none")
              refuse_without_effect(o, "memory", rate_from().options, "rate_from",
                                    "with memory.decay = \"none\"", "set memory.decay = \"mamba\" too");
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = m.input(
                "beta", [&] { return sigmoid(m.token("beta", 1, {}, 0, true), m.number("beta_max")); });
            const bool fades = m.learned() ? m.text("decay") == "mamba" : m.has_input("log_decay");
            const auto g = fades ? mamba_decay(m) : decltype(beta){};
            return read(m, q, {.key = k, .gain = beta, .log_decay = g, .erase = Erase::delta});
          },
      .published =
          {
              .source = "Siems et al. 2025, arXiv 2502.10297; fla-org/flash-linear-attention@bc3b101d "
                        "fla/layers/gated_deltaproduct.py",
              .set = {{"model.short_conv", "qkv"},
                      {"model.silu", "qkv"},
                      {"model.biases", "-beta -out_gate"},
                      {"memory.beta_max", 2.0},
                      {"memory.decay", "mamba"},
                      {"memory.rate_from", 0.0},
                      {"model.out_norm", "rms"},
                      {"model.out_norm_gain", "shared"},
                      {"model.out_gate", "silu"}},
              .expand_v = 2,
              .eps_times = HeadChannels::keys,
              .parameters = 47300,
          }};
}

}  // namespace crosstalk::memories
