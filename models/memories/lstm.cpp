// LSTM: long short-term memory, whose gates see the hidden state (Hochreiter and Schmidhuber 1997; forget gates: Gers et al.
// 2000). A nonlinear recurrence over the values' channels: a ceiling of state tracking, no associative memory.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(lstm) {
  return {
      .summary = "long short-term memory over the values' channels: a nonlinear recurrence",
      .does =
          "updates a cell through gates that see the hidden state (nonlinear; a ceiling of state tracking)",
      .family = Family::own_law,
      .law = R"(
    input_gate = token(V, bias = 0)
    forget_gate = token(V, bias = 1)
    output_gate = token(V, bias = 0)
    query_gate = asking(V)
    u_input = parameter(V, V, uniform(1 / sqrt(values)))
    u_forget = parameter(V, V, uniform(1 / sqrt(values)))
    u_cell = parameter(V, V, uniform(1 / sqrt(values)))
    u_output = parameter(V, V, uniform(1 / sqrt(values)))
    state h[V]
    state c[V]
    i = sigmoid(input_gate + u_input h)
    f = sigmoid(forget_gate + u_forget h)
    g = sigmoid(output_gate + u_output h)
    c = f * c + i * tanh(v + u_cell h)
    h = g * tanh(c)
    read beside ? sigmoid(query_gate) * h : h)",
      .source = "Hochreiter and Schmidhuber 1997; Greff et al. 2015, arXiv 1503.04069",
      .notes =
          "Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x the query's embedding.",
      .inputs = {{"input_gate"},
                 {"forget_gate"},
                 {"output_gate"},
                 {.name = "u_input", .open = Open{0}},
                 {.name = "u_forget", .open = Open{0}},
                 {.name = "u_cell", .open = Open{0}},
                 {.name = "u_output", .open = Open{0}}},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true};
}
