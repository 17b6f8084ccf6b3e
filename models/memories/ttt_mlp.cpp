// TTT-MLP: a network of one hidden layer behind LayerNorm, trained while it reads by a step of gradient
// descent a token (Sun et al. 2024, arXiv 2407.04620).
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory ttt_mlp() {
  return {
      .name = "ttt_mlp",
      .summary = "TTT-MLP: a network of one hidden layer behind LayerNorm, trained while it reads",
      .does = "takes a step of gradient descent on a network of one hidden layer behind LayerNorm",
      .family = Family::own_law,
      .equation =
          "f(x) = x + LayerNorm(W2 gelu(W1 x + b1) + b2) * gain + bias, W_t = W_{t-1} - rate_t grad "
          "|f(k_t) - v_t|^2 / 2 at the mini-batch's start, o = f(q)",
      .laws = "rate_t = 0.1 sigmoid(w.token + b) / d_key",
      .source = "Sun et al. 2024, arXiv 2407.04620",
      .notes =
          "4 d_key hidden units, gelu by tanh. x in f is cut to the values' size or filled with "
          "zeros; residual = false leaves it out. The authors' code has mini-batches of 16, in "
          "which it also weighs gradients by the reader's place. W1, b1, W2, b2 start as "
          "parameters; in `apply` as w1_0 and so on.",
      .flops = [](const Options&, double K, double V, double T,
                  double) { return 24 * hidden(static_cast<std::int64_t>(K)) * (K + V) * T; },
      .parts = {key_norm("none")},
      .options = {{.name = "mini_batch",
                   .default_value = std::int64_t{1},
                   .help = "tokens whose gradients are taken at the same W",
                   .min = 1,
                   .max = 1 << 20,
                   .tried = {1, 3}},
                  {"residual", true, "whether f adds x"}},
      .inputs = {{.name = "rate", .open = Open{0.01}, .range = {0.02, 0.12}},
                 {.name = "gain", .per = Per::other, .shape = "[H,V]"},
                 {.name = "bias", .per = Per::other, .shape = "[H,V]", .open = Open{0}},
                 {.name = "w1_0", .per = Per::other, .shape = "[B,H,M,K]", .range = {-1.3, 1.3}},
                 {.name = "b1_0", .per = Per::other, .shape = "[B,H,M]", .range = {-1.3, 1.3}},
                 {.name = "w2_0", .per = Per::other, .shape = "[B,H,V,M]", .range = {-1.3, 1.3}},
                 {.name = "b2_0", .per = Per::other, .shape = "[B,H,V]", .range = {-1.3, 1.3}}},
      .states = {"W1", "b1", "W2", "b2"},
      .forms_state = true,
      .state =
          [](const Options& o, std::int64_t K, std::int64_t V, std::int64_t) {
            const std::int64_t M = hidden(static_cast<std::int64_t>(K));
            return (o.get_int("memory.mini_batch") > 1 ? 2 : 1) * (M * (K + 1) + V * (M + 1));
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const Size M = hidden(m.K);
            const auto begin = [&](const char* name, int size, Init init) {
              return m.input(name, [&] { return m.parameter(name, {m.H, size}, init); });
            };
            const Init weights = Init::normal(0.02), zero = Init::constant(0);
            return network_read(m, q, k,
                                {.hidden = M,
                                 .biases = true,
                                 .residual = m.flag("residual"),
                                 .mini_batch = m.integer("mini_batch"),
                                 .rate = m.input("rate", [&] { return sigmoid(m.token("rate"), 0.1 / m.d); }),
                                 .gain = begin("gain", m.V, Init::constant(1)),
                                 .bias = begin("bias", m.V, zero),
                                 .states = {"W1", "b1", "W2", "b2"},
                                 .begin = {begin("w1_0", M * m.K, weights), begin("b1_0", M, zero),
                                           begin("w2_0", m.V * M, weights), begin("b2_0", m.V, zero)}});
          },
      .published =
          {
              .source = "Sun et al. 2024, arXiv 2407.04620; test-time-training/ttt-lm-pytorch@6990c68 ttt.py",
              .set = {{"memory.mini_batch", std::int64_t{16}},
                      {"model.rotary", true},
                      {"model.rotary_period", std::int64_t{16}},
                      {"model.out_norm", "layer"},
                      {"model.out_norm_eps", 1e-6}},
              .lacks = "the weights of a mini-batch's gradients by the place of the reader",
          }};
}

}  // namespace crosstalk::memories
