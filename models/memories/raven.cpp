// Raven: gated slot attention whose slots are written by a router, the largest of whose scores say which slots a token goes into
// and how far these fade: log alpha_t = g_t r_t, r_t the top scores divided by their sum, 0 elsewhere (flash-linear-attention,
// fla/layers/raven.py).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(raven) {
  return {
      .summary = "softmax attention over slots, of which a router picks those that a token is written into",
      .does =
          "writes into the slots that a router picks, each decaying as much as it is written; retrieves by softmax",
      .family = Family::adds,
      .law = R"(
    A_log = parameter(log_uniform(1e-4, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    router = token(slots)
    picked = largest(sigmoid(router), selected)
    g = log_decay share(picked, 1e-9)
    state A[slots, K]
    state C[V, slots]
    A = diag(exp(g)) A + (1 - exp(g)) k^T
    C = C diag(exp(g)) + v (1 - exp(g))^T
    read C softmax(A q))",
      .source = "fla-org/flash-linear-attention@bc3b101d fla/layers/raven.py",
      .notes =
          "Products of slots and queries are not scaled. Without the Gumbel noise that its layer adds to the router in training.",
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {number("slots", 64, "slots of a head: rows of A and columns of C", 1, 4096, {3, 5}),
                  number("selected", 32, "slots that a token is written into (all where there are fewer)", 1,
                         4096, {1, 5})},
      .inputs = {{.name = "log_decay", .open = Open{-0.1}},
                 {.name = "router", .per = Per::other, .shape = "[B,T,H,S]"},
                 {.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,S,K]"},
                 {.name = "c0", .per = Per::other, .optional = true, .shape = "[B,H,V,S]"}},
      .forms_state = true,
      .letters = {{'S', "slots"}},
      .published = {.source = "fla-org/flash-linear-attention@bc3b101d fla/layers/raven.py",
                    .settings = "silu=qkv, qk_norm=shared, biases=-router, out_act=silu, out_norm=rms_all",
                    .parameters = 24836,
                    .undecayed = {"A_log", "decay.bias"},
                    .lacks = {{"Gumbel noise on the router in training",
                               "slots that the router does not pick at first are tried less often"},
                              {"eps 1e-6 of its norms (here 1e-5, that of the layer alone)",
                               "rows of length 1 change by 5e-6"}}}};
}
