// Titans with a linear memory: gradient descent on |S k - v|^2 / 2 with momentum and forgetting, a step a
// token (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(titans_linear) {
  return {.summary = "Titans, linear: the delta rule with momentum in a state that decays",
          .does = "takes a step of gradient descent with momentum and forgetting on a linear map",
          .family = Family::own_law,
          .law = R"(
    rate = sigmoid(token)
    momentum = token
    momentum_gate = sigmoid(momentum)
    forget = token(bias = -4)
    forget_gate = sigmoid(forget)
    start = parameter(V, K, normal(0.02))
    state S[V, K] = start
    state P[V, K]
    state B[V, K]
    state place[1]
    B = mini_batch == 1 ? S : positive(1 - place) S + positive(place) B
    P = momentum_gate P - rate (B k - v) k^T
    S = (1 - forget_gate) S + P
    place = (place + 1) positive(mini_batch - 1 - place)
    read S q)",
          .source = "Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663",
          .notes = "The loss is half of the squared error; forget's b starts at -4. S starts as a parameter.",
          .parts = {feature_map("identity"), key_norm("l2")},
          .options = {number("mini_batch", 1, "tokens whose gradients are taken at the same S", 1, 1 << 20,
                             {1, 3})},
          .inputs = {{.name = "rate", .range = {0.02, 0.12}},
                     {.name = "momentum_gate", .open = Open{0}},
                     {.name = "forget_gate", .open = Open{0}}},
          .states = {"S", "P"},
          .forms_state = true};
}
