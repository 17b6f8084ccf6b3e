// Titans with a network of one hidden layer as memory: gradient descent on |f(k) - v|^2 / 2 with momentum and
// forgetting, a step a token (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory titans_mlp() {
  return {
      .name = "titans_mlp",
      .summary =
          "Titans: a network of one hidden layer, trained while it reads, with momentum and "
          "forgetting",
      .does =
          "takes a step of gradient descent with momentum and forgetting on a network of one hidden "
          "layer",
      .family = Family::own_law,
      .equation =
          "f(x) = W2 gelu(W1 x), P_t = momentum_t P_{t-1} - rate_t grad |f(k_t) - v_t|^2 / 2 at the "
          "mini-batch's start, W_t = (1 - forget_t) W_{t-1} + P_t, o = f(q)",
      .laws =
          "rate_t = max_rate sigmoid(w.token + b), momentum_t = sigmoid(w'.token + b'), forget_t = "
          "sigmoid(w''.token + b'')",
      .source = "Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663",
      .notes =
          "4 d_key hidden units, gelu by tanh. The loss is half of the squared error; forget's b "
          "starts at -4. Keys and queries are divided by their lengths: a step of gradient descent "
          "is stable while keys are short. The longer the values that it stores, the steeper the network: "
          "where they "
          "are longer than about 1 a step diverges, unless max_rate is below 1. W1 and W2 start as "
          "parameters; in "
          "`apply` as w1_0 and w2_0, and keys are taken as they are.",
      .flops = [](const Options&, double K, double V, double T,
                  double) { return 24 * hidden(static_cast<std::int64_t>(K)) * (K + V) * T; },
      .options = {{.name = "max_rate",
                   .default_value = 1.0,
                   .help = "largest rate of a step; values far longer than 1 need a smaller one",
                   .min = 0,
                   .max = 1e6,
                   .min_exclusive = true,
                   .tried = {1.0, 0.25}},
                  {.name = "mini_batch",
                   .default_value = std::int64_t{1},
                   .help = "tokens whose gradients are taken at the same W",
                   .min = 1,
                   .max = 1 << 20,
                   .tried = {1, 3}}},
      .inputs =
          {{.name = "rate", .range = {0.02, 0.12}},
           {.name = "momentum_gate", .symbol = "momentum", .open = Open{0}, .range = {0.05, 0.95}},
           {.name = "forget_gate", .symbol = "forget", .open = Open{0}, .range = {0.05, 0.95}},
           {.name = "w1_0", .per = Per::other, .shape = "[B,H,M,K]", .range = {-0.7, 0.7}},
           {.name = "w2_0", .per = Per::other, .shape = "[B,H,V,M]", .range = {-0.7, 0.7}},
           {.name = "p1_0", .per = Per::other, .optional = true, .shape = "[B,H,M,K]", .range = {-0.7, 0.7}},
           {.name = "p2_0", .per = Per::other, .optional = true, .shape = "[B,H,V,M]", .range = {-0.7, 0.7}}},
      .states = {"W1", "W2", "P1", "P2"},
      .forms_state = true,
      .state =
          [](const Options& o, std::int64_t K, std::int64_t V, std::int64_t) {
            return (o.get_int("memory.mini_batch") > 1 ? 3 : 2) * (V + K) *
                   hidden(static_cast<std::int64_t>(K));
          },
      .build =
          [](auto& m) {
            auto [q, k] = features(m);
            if (m.learned()) q = unit(q), k = unit(k);
            const Size M = hidden(m.K);
            const auto weights = [&](const char* name, int rows, int columns) {
              return m.input(name, [&] {
                return m.parameter(name, {m.H, rows * columns}, Init::uniform(1 / std::sqrt(columns)));
              });
            };
            return network_read(
                m, q, k,
                {.hidden = M,
                 .mini_batch = m.integer("mini_batch"),
                 .rate = m.input("rate", [&] { return sigmoid(m.token("rate"), m.number("max_rate")); }),
                 .momentum = m.input("momentum_gate", [&] { return sigmoid(m.token("momentum")); }),
                 .forget = m.input("forget_gate",
                                   [&] { return sigmoid(m.token("forget", 1, Init::constant(-4))); }),
                 .states = {"W1", nullptr, "W2", nullptr, "P1", nullptr, "P2"},
                 .begin = {weights("w1_0", M, m.K), {}, weights("w2_0", m.V, M)}});
          }};
}

}  // namespace crosstalk::memories
