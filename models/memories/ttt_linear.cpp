// TTT-Linear: a linear map behind LayerNorm, trained while it reads by a step of gradient descent a token
// (Sun et al. 2024, arXiv 2407.04620).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(ttt_linear) {
  return {
      .summary = "TTT-Linear: a linear map behind LayerNorm, trained while it reads",
      .does = "takes a step of gradient descent on a linear map behind LayerNorm",
      .family = Family::own_law,
      .law = R"(
    rate = (1 / d) sigmoid(token)
    gain = parameter(V, constant(1))
    bias = parameter(V, constant(0))
    start = parameter(V, K, normal(0.02))
    start_b = parameter(V, constant(0))
    state S[V, K] = start
    state b[V] = start_b
    state A[V, K]
    state c[V]
    state place[1]
    A = mini_batch == 1 ? S : positive(1 - place) S + positive(place) A
    c = mini_batch == 1 ? b : positive(1 - place) b + positive(place) c
    target = residual ? v - fit(k, V) : v
    e = gain * layernorm(A k + c, 1e-6) + bias - target
    loss = 0.5 sum(e^2)
    S -= rate grad(loss, A)
    b -= rate grad(loss, c)
    place = (place + 1) positive(mini_batch - 1 - place)
    read gain * layernorm(S q + b, 1e-6) + (residual ? bias + fit(q, V) : bias))",
      .source = "Sun et al. 2024, arXiv 2407.04620",
      .notes =
          "x in f is cut to the values' size or filled with zeros; residual = false leaves it out. The authors' code has mini-batches of 16, in "
          "which it also weighs gradients by the reader's place. S starts as a parameter.",
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {number("mini_batch", 1, "tokens whose gradients are taken at the same S", 1, 1 << 20,
                         {1, 3}),
                  {"residual", true, "whether f adds x"}},
      .inputs = {{.name = "rate", .open = Open{0.01}, .range = {0.02, 0.12}},
                 {"gain"},
                 {.name = "bias", .open = Open{0}}},
      .states = {"S", "b"},
      .forms_state = true,
      .published = {.source = "; test-time-training/ttt-lm-pytorch@6990c68 ttt.py",
                    .settings = "memory.mini_batch=16, rotary=true, rotary_period=16, out_norm=layer, "
                                "out_norm_eps=1e-6",
                    .lacks = {{"the weights of a mini-batch's gradients by the place of the reader",
                               "steps inside a mini-batch are all as long as the last one's"}}}};
}
