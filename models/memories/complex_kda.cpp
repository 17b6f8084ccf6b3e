// KDA with signed gates (Complex KDA, OpenEuroLLM/ComplexKDA@03af970; signed_exp: as in Grazzi et al. 2024, arXiv 2411.12537).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory complex_kda() {
  const OptionSpec start = {
      "decay_start", 0.1,
      "the weights W2 of decays start as the model's do, times this: the authors' code has 0.1 where "
      "signs are drawn (signed_sigmoid2) and 1 elsewhere",
      0.001, 10};
  return {
      .name = "complex_kda",
      .summary = "KDA whose decays may be negative: key channels that change sign",
      .does = "decays every key channel by a factor of either sign, then the delta rule: channels that flip",
      .family = Family::erases,
      .law = R"(
    S = S diag(signed_decay)
    S += beta (v - S k) k^T
    read S q)",
      .laws =
          "signed_decay = sign(u) (e^-5 + (1 - e^-5) |tanh(u / 2)|), u = e^A (W2 W1 token + b) (gate sigmoid: exp(-5 sigmoid(u)); signed_exp: 2 exp(-e^A softplus(W2 W1 token + b)) - 1), beta = beta_max sigmoid(w'.token + b')",
      .source =
          "Complex KDA, OpenEuroLLM/ComplexKDA@03af970; Kimi team 2025, arXiv 2510.26692; signed_exp: the "
          "gates of Grazzi et al. 2024, arXiv 2411.12537",
      .notes =
          "Signs are multiplied into keys and queries, where they cost nothing. Decays start with either "
          "sign, "
          "half-lives between 7 and 700 tokens; those of signed_exp start positive, nearly all.",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options =
          {{"gate",
            std::string("signed_sigmoid2"),
            "law of the decay: of either sign and at least e^-5 (signed_sigmoid2), positive and at least "
            "e^-5 (sigmoid), or 2 e^g - 1 with Mamba-2's g (signed_exp)",
            0,
            0,
            {"signed_sigmoid2", "sigmoid", "signed_exp"}},
           start},
      .inputs = {{.name = "signed_decay", .per = Per::key, .range = {-1, 1, 1e-9}},
                 {.name = "beta", .range = {0.05, 0.95}}},
      .check =
          [start](Options& o) {
            if (o.get_string("memory.gate") == "signed_exp")
              refuse_without_effect(o, "memory", {start}, start.name, "with memory.gate = \"signed_exp\"",
                                    "choose another gate");
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = beta_gate(m);
            const auto decay = m.input("signed_decay", [&] {
              const std::string& gate = m.text("gate");
              if (gate == "signed_exp") return -1.0 + 2.0 * exp(mamba_law(m, m.K));
              const bool either = gate == "signed_sigmoid2";
              const auto u =
                  exp(m.parameter("A_log", {m.H}, Init::constant(0))) *
                  m.token("decay", m.K, either ? Init::signed_step(1e-3, 0.1) : Init::logit_step(1e-3, 0.1),
                          {m.d, MapKind::affine, m.number("decay_start")});
              if (!either) return exp(-5.0 * sigmoid(u));
              // sign(u) e^-5 + (1 - e^-5) tanh(u / 2); u |u|^-1 has the sign, and 0 at 0
              const auto size = larger(u, 0.0 * u);
              return std::exp(-5.0) * (u * map(MapKind::inverse, size)) +
                     (1 - std::exp(-5.0)) * map(MapKind::tanh, 0.5 * u);
            });
            return read(m, q,
                        {.key = k,
                         .gain = beta,
                         .log_decay = 0.5 * log(decay * decay),
                         .sign = decay,
                         .erase = Erase::delta});
          },
      .published =
          {
              .source = "OpenEuroLLM/ComplexKDA@03af970 fla/layers/complex_kda_layer.py",
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
