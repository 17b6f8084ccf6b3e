// Titans with a network of one hidden layer as memory: gradient descent on |f(k) - v|^2 / 2 with momentum and
// forgetting, a step a token (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(titans_mlp) {
  return {
      .summary =
          "Titans: a network of one hidden layer, trained while it reads, with momentum and forgetting",
      .does =
          "takes a step of gradient descent with momentum and forgetting on a network of one hidden layer",
      .family = Family::own_law,
      .law = R"(
    rate = max_rate sigmoid(token)
    momentum = token
    momentum_gate = sigmoid(momentum)
    forget = token(bias = -4)
    forget_gate = sigmoid(forget)
    w1_0 = parameter(M, K, uniform(1 / sqrt(keys)))
    w2_0 = parameter(V, M, uniform(1 / sqrt(4 keys)))
    key = learned ? unit(k) : k
    query = learned ? unit(q) : q
    state W1[M, K] = w1_0
    state W2[V, M] = w2_0
    state P1[M, K]
    state P2[V, M]
    state A[M, K]
    state C[V, M]
    state place[1]
    A = mini_batch == 1 ? W1 : positive(1 - place) W1 + positive(place) A
    C = mini_batch == 1 ? W2 : positive(1 - place) W2 + positive(place) C
    x = A key
    loss = 0.5 sum((C (0.5 x * (1 + tanh(0.7978845608028654 (x + 0.044715 x^3)))) - v)^2)
    P1 = momentum_gate P1 - rate grad(loss, A)
    P2 = momentum_gate P2 - rate grad(loss, C)
    W1 = (1 - forget_gate) W1 + P1
    W2 = (1 - forget_gate) W2 + P2
    place = (place + 1) positive(mini_batch - 1 - place)
    y = W1 query
    read W2 (0.5 y * (1 + tanh(0.7978845608028654 (y + 0.044715 y^3)))))",
      .source = "Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663",
      .notes =
          "4 d_key hidden units, gelu by tanh. The loss is half of the squared error; forget's b starts at -4. Keys and queries are divided by their "
          "lengths: a step of gradient descent is stable while keys are short. The longer the values that it stores, the steeper the network: where "
          "they are longer than about 1 a step diverges, unless max_rate is below 1. W1 and W2 start as parameters; in `apply` as w1_0 and w2_0, and "
          "keys are taken as they are.",
      .options = {{.name = "max_rate",
                   .default_value = 1.0,
                   .help = "largest rate of a step; values far longer than 1 need a smaller one",
                   .min = 0,
                   .max = 1e6,
                   .min_exclusive = true,
                   .tried = {1.0, 0.25}},
                  number("mini_batch", 1, "tokens whose gradients are taken at the same W", 1, 1 << 20,
                         {1, 3})},
      .inputs =
          {{.name = "rate", .range = {0.02, 0.12}},
           {.name = "momentum_gate", .open = Open{0}},
           {.name = "forget_gate", .open = Open{0}},
           {.name = "w1_0", .per = Per::other, .shape = "[B,H,M,K]", .range = {-0.7, 0.7}},
           {.name = "w2_0", .per = Per::other, .shape = "[B,H,V,M]", .range = {-0.7, 0.7}},
           {.name = "p1_0", .per = Per::other, .optional = true, .shape = "[B,H,M,K]", .range = {-0.7, 0.7}},
           {.name = "p2_0", .per = Per::other, .optional = true, .shape = "[B,H,V,M]", .range = {-0.7, 0.7}}},
      .states = {"W1", "W2", "P1", "P2"},
      .forms_state = true};
}
