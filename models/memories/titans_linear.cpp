// Titans with a linear memory: gradient descent on |S k - v|^2 / 2 with momentum and forgetting, a step a
// token (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663).
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory titans_linear() {
  return {
      .name = "titans_linear",
      .summary = "Titans, linear: the delta rule with momentum in a state that decays",
      .does = "takes a step of gradient descent with momentum and forgetting on a linear map",
      .family = Family::own_law,
      .equation =
          "P_t = momentum_t P_{t-1} - rate_t (S' k_t - v_t) k_t^T, S_t = (1 - forget_t) S_{t-1} + "
          "P_t, S' = S at the mini-batch's start, o = S q",
      .laws =
          "rate_t = sigmoid(w.token + b), momentum_t = sigmoid(w'.token + b'), forget_t = sigmoid(w''.token "
          "+ b'')",
      .source = "Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663",
      .notes = "The loss is half of the squared error; forget's b starts at -4. S starts as a parameter.",
      .bounded_by_rank = true,
      .flops = flops::formed_state<24>,
      .parts = {feature_map("identity"), key_norm("l2")},
      .options = {{.name = "mini_batch",
                   .default_value = std::int64_t{1},
                   .help = "tokens whose gradients are taken at the same S",
                   .min = 1,
                   .max = 1 << 20,
                   .tried = {1, 3}}},
      .inputs = {{.name = "rate", .range = {0.02, 0.12}},
                 {.name = "momentum_gate", .symbol = "momentum", .open = Open{0}, .range = {0.05, 0.95}},
                 {.name = "forget_gate", .symbol = "forget", .open = Open{0}, .range = {0.05, 0.95}},
                 {.name = "p0", .per = Per::other, .optional = true, .shape = "[B,H,V,K]"}},
      .states = {"S", "P"},
      .forms_state = true,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return (o.get_int("memory.mini_batch") > 1 ? 3 : 2) * V * K; },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            using V = decltype(m.values());
            return network_read(
                m, q, k,
                {.mini_batch = m.integer("mini_batch"),
                 .rate = m.input("rate", [&] { return sigmoid(m.token("rate")); }),
                 .momentum = m.input("momentum_gate", [&] { return sigmoid(m.token("momentum")); }),
                 .forget = m.input("forget_gate",
                                   [&] { return sigmoid(m.token("forget", 1, Init::constant(-4))); }),
                 .states = {nullptr, nullptr, "S", nullptr, nullptr, nullptr, "P"},
                 .begin = {{},
                           {},
                           m.learned() ? m.parameter("start", {m.H, m.V * m.K}, Init::normal(0.02)) : V{}}});
          }};
}

}  // namespace crosstalk::memories
