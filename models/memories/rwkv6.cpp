// RWKV-6 (Peng et al. 2024, arXiv 2404.05892). A query beside the sequence reads S_T: it has no value of its own, hence no bonus.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/parts/ramps.h"

namespace crosstalk::memories {

Memory rwkv6() {
  return {
      .name = "rwkv6",
      .summary =
          "sum rule with a decay for every key channel; a token reads before it writes, and itself "
          "by a bonus",
      .does = "decay by key channels, but retrieves before it writes, and the current token with a bonus",
      .family = Family::adds,
      .law = R"(
    read S q + v ((bonus * k)^T q)
    S = S diag(exp(log_decay)) + v k^T)",
      .laws = "log_decay = -exp(W2 W1 token + b); lora tanh: W2 tanh(W1 token) + b",
      .source = "Peng et al. 2024, arXiv 2404.05892",
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {{"start",
                   std::string("drawn"),
                   "ramps: bias of the decay and bonus start as ramps over the channels and the depth of the "
                   "layer, as "
                   "its authors start them; drawn: U(-6, -1) and U(-0.5, 0.5)",
                   0,
                   0,
                   {"drawn", "ramps"}},
                  {"lora",
                   std::string("linear"),
                   "what the projection of decays goes through on its way: linear, through as many numbers "
                   "as a head's key; "
                   "tanh, through 64, with weights that start at 0, as its authors have it",
                   0,
                   0,
                   {"linear", "tanh"}}},
      .inputs = {{.name = "log_decay", .per = Per::key, .range = {-1.5, -0.01, -20}},
                 {.name = "bonus", .per = Per::head_key}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const bool ramps = m.text("start") == "ramps";
            const RwkvStarts start = rwkv6_starts(m.H * m.K, m.depth());
            const auto g = m.input("log_decay", [&] {
              const Init bias = ramps ? Init::listed(start.decay) : Init{Init::Law::uniform, -6, -1};
              if (m.text("lora") == "tanh") return -exp(m.token("decay", m.K, bias, {64, MapKind::tanh, 0}));
              return -exp(m.token("decay", m.K, bias, int{m.d}));
            });
            const auto o = read(m, q, {.key = k, .log_decay = g, .before = m.at_tokens()});
            if (!m.at_tokens()) return o;
            const auto bonus = m.input("bonus", [&] {
              return m.parameter("bonus", {m.H, m.K}, ramps ? Init::listed(start.bonus) : Init::uniform(0.5));
            });
            return o + fold(q * (bonus * k), {m.B, m.T, m.H, 1}) * m.values();
          },
      .published = {
          .source = "Peng et al. 2024, arXiv 2404.05892; BlinkDL/RWKV-LM@033ce84 RWKV-v5/src/model.py",
          .set = {{"memory.start", "ramps"},
                  {"memory.lora", "tanh"},
                  {"model.input_shift", "token"},
                  {"model.input_shift_start", "rwkv4"},
                  {"model.biases", "-out_gate"},
                  {"model.out_norm", "group"},
                  {"model.out_norm_eps", 64e-5},
                  {"model.out_gate", "silu"}},
      }};
}

}  // namespace crosstalk::memories
