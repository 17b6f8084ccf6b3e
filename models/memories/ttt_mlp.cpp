// TTT-MLP: a network of one hidden layer behind LayerNorm, trained while it reads by a step of gradient
// descent a token (Sun et al. 2024, arXiv 2407.04620).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(ttt_mlp) {
  return {
      .summary = "TTT-MLP: a network of one hidden layer behind LayerNorm, trained while it reads",
      .does = "takes a step of gradient descent on a network of one hidden layer behind LayerNorm",
      .family = Family::own_law,
      .law = R"(
    rate = (0.1 / d) sigmoid(token)
    gain = parameter(V, constant(1))
    bias = parameter(V, constant(0))
    w1_0 = parameter(M, K, normal(0.02))
    b1_0 = parameter(M, constant(0))
    w2_0 = parameter(V, M, normal(0.02))
    b2_0 = parameter(V, constant(0))
    state W1[M, K] = w1_0
    state b1[M] = b1_0
    state W2[V, M] = w2_0
    state b2[V] = b2_0
    state A[M, K]
    state u[M]
    state C[V, M]
    state w[V]
    state place[1]
    A = mini_batch == 1 ? W1 : positive(1 - place) W1 + positive(place) A
    u = mini_batch == 1 ? b1 : positive(1 - place) b1 + positive(place) u
    C = mini_batch == 1 ? W2 : positive(1 - place) W2 + positive(place) C
    w = mini_batch == 1 ? b2 : positive(1 - place) b2 + positive(place) w
    x = A k + u
    z = C (0.5 x * (1 + tanh(0.7978845608028654 (x + 0.044715 x^3)))) + w
    target = residual ? v - fit(k, V) : v
    e = gain * layernorm(z, 1e-6) + bias - target
    loss = 0.5 sum(e^2)
    W1 -= rate grad(loss, A)
    b1 -= rate grad(loss, u)
    W2 -= rate grad(loss, C)
    b2 -= rate grad(loss, w)
    place = (place + 1) positive(mini_batch - 1 - place)
    y = W1 q + b1
    o = W2 (0.5 y * (1 + tanh(0.7978845608028654 (y + 0.044715 y^3)))) + b2
    read gain * layernorm(o, 1e-6) + (residual ? bias + fit(q, V) : bias))",
      .source = "Sun et al. 2024, arXiv 2407.04620",
      .notes =
          "4 d_key hidden units, gelu by tanh. x in f is cut to the values' size or filled with zeros; residual = false leaves it out. The "
          "authors' code has mini-batches of 16, in which it also weighs gradients by the reader's place. W1, b1, W2, b2 start as parameters; in "
          "`apply` as w1_0 and so on.",
      .parts = {key_norm("none")},
      .options = {number("mini_batch", 1, "tokens whose gradients are taken at the same W", 1, 1 << 20,
                         {1, 3}),
                  {"residual", true, "whether f adds x"}},
      .inputs = {{.name = "rate", .open = Open{0.01}, .range = {0.02, 0.12}},
                 {"gain"},
                 {.name = "bias", .open = Open{0}},
                 {.name = "w1_0", .per = Per::other, .shape = "[B,H,M,K]", .range = {-1.3, 1.3}},
                 {.name = "b1_0", .per = Per::other, .shape = "[B,H,M]", .range = {-1.3, 1.3}},
                 {.name = "w2_0", .per = Per::other, .shape = "[B,H,V,M]", .range = {-1.3, 1.3}},
                 {.name = "b2_0", .per = Per::other, .shape = "[B,H,V]", .range = {-1.3, 1.3}}},
      .states = {"W1", "b1", "W2", "b2"},
      .forms_state = true,
      .published = {.source = "; test-time-training/ttt-lm-pytorch@6990c68 ttt.py",
                    .settings = "memory.mini_batch=16, rotary=true, rotary_period=16, out_norm=layer, "
                                "out_norm_eps=1e-6",
                    .lacks = {{"the weights of a mini-batch's gradients by the place of the reader",
                               "steps inside a mini-batch are all as long as the last one's"}}}};
}
