// GRU: the gated recurrent unit (Cho et al. 2014, arXiv 1406.1078, in the form whose reset gate comes after U). A nonlinear
// recurrence over the values' channels: a ceiling of state tracking, no associative memory.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gru) {
  return {
      .summary = "gated recurrent unit over the values' channels: a nonlinear recurrence",
      .does = "averages a hidden state and its own proposal (nonlinear; a ceiling of state tracking)",
      .family = Family::own_law,
      .law = R"(
    reset_gate = token(V, bias = 0)
    update_gate = token(V, bias = 0)
    query_gate = asking(V)
    u_reset = parameter(V, V, uniform(1 / sqrt(values)))
    u_update = parameter(V, V, uniform(1 / sqrt(values)))
    u_new = parameter(V, V, uniform(1 / sqrt(values)))
    state h[V]
    r = sigmoid(reset_gate + u_reset h)
    z = sigmoid(update_gate + u_update h)
    h = (1 - z) * tanh(v + r * (u_new h)) + z * h
    read beside ? sigmoid(query_gate) * h : h)",
      .source = "Cho et al. 2014, arXiv 1406.1078",
      .notes =
          "Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x the query's embedding.",
      .inputs = {{"reset_gate"},
                 {"update_gate"},
                 {.name = "u_reset", .open = Open{0}},
                 {.name = "u_update", .open = Open{0}},
                 {.name = "u_new", .open = Open{0}}},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true};
}
