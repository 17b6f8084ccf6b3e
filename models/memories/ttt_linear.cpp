// TTT-Linear: a linear map behind LayerNorm, trained while it reads by a step of gradient descent a token
// (Sun et al. 2024, arXiv 2407.04620).
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory ttt_linear() {
  return {
      .name = "ttt_linear",
      .summary = "TTT-Linear: a linear map behind LayerNorm, trained while it reads",
      .does = "takes a step of gradient descent on a linear map behind LayerNorm",
      .family = Family::own_law,
      .equation =
          "f(x) = x + LayerNorm(S x + b) * gain + bias, (S, b)_t = (S, b)_{t-1} - rate_t grad "
          "|f(k_t) - v_t|^2 / 2 at the mini-batch's start, o = f(q)",
      .laws = "rate_t = sigmoid(w.token + b) / d_key",
      .source = "Sun et al. 2024, arXiv 2407.04620",
      .notes =
          "x in f is cut to the values' size or filled with zeros; residual = false leaves it out. "
          "The authors' code has mini-batches of 16, in which it also weighs gradients by the "
          "reader's place. S starts as a parameter.",
      .flops = flops::formed_state<24>,
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {{.name = "mini_batch",
                   .default_value = std::int64_t{1},
                   .help = "tokens whose gradients are taken at the same S",
                   .min = 1,
                   .max = 1 << 20,
                   .tried = {1, 3}},
                  {"residual", true, "whether f adds x"}},
      .inputs = {{.name = "rate", .open = Open{0.01}, .range = {0.02, 0.12}},
                 {.name = "gain", .per = Per::other, .shape = "[H,V]"},
                 {.name = "bias", .per = Per::other, .shape = "[H,V]", .open = Open{0}},
                 {.name = "b0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .states = {"S", "b"},
      .forms_state = true,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return (o.get_int("memory.mini_batch") > 1 ? 2 : 1) * V * (K + 1); },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            using V = decltype(m.values());
            const bool learned = m.learned();
            return network_read(
                m, q, k,
                {.biases = true,
                 .residual = m.flag("residual"),
                 .mini_batch = m.integer("mini_batch"),
                 .rate = m.input("rate", [&] { return sigmoid(m.token("rate"), 1.0 / m.d); }),
                 .gain = m.input("gain",
                                 [&] {
                                   return m.parameter("gain", {m.H, m.V}, Init::constant(1));
                                 }),
                 .bias = m.input("bias",
                                 [&] {
                                   return m.parameter("bias", {m.H, m.V}, Init::constant(0));
                                 }),
                 .states = {nullptr, nullptr, "S", "b"},
                 .begin = {{},
                           {},
                           learned ? m.parameter("start", {m.H, m.V * m.K}, Init::normal(0.02)) : V{},
                           learned ? m.parameter("start_b", {m.H, m.V}, Init::constant(0)) : V{}}});
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
