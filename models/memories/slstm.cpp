// sLSTM of xLSTM: an LSTM with exponential input gates and a divisor, whose gates see the hidden state (Beck et al. 2024, arXiv
// 2405.04517, eqs 8 to 18). A nonlinear recurrence over the values' channels, head by head.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(slstm) {
  return {
      .summary = "LSTM with exponential input gates over the values' channels: a nonlinear recurrence",
      .does = "averages cells by exponential input gates that see the hidden state (nonlinear)",
      .family = Family::own_law,
      .law = R"(
    input_gate = token(V, bias = start == "plain" ? constant(0) : start == "layers" ? ramp("slstm.layers") : ramp("slstm.input"))
    forget_gate = token(V, bias = start == "plain" ? 1 : 0)
    output_gate = token(V, bias = 0)
    query_gate = asking(V)
    u_input = parameter(V, V, start == "plain" ? uniform(1 / sqrt(values)) : constant(0))
    u_forget = parameter(V, V, start == "plain" ? uniform(1 / sqrt(values)) : constant(0))
    u_cell = parameter(V, V, start == "plain" ? uniform(1 / sqrt(values)) : constant(0))
    u_output = parameter(V, V, start == "plain" ? uniform(1 / sqrt(values)) : constant(0))
    state h[V]
    state y[V]
    state L[V] = -1e30
    i = input_gate + u_input h
    f = log_sigmoid(forget_gate + u_forget h) + L
    g = sigmoid(output_gate + u_output h)
    L = i + softplus(f - i)
    y = sigmoid(f - i) * y + sigmoid(i - f) * tanh(v + u_cell h)
    h = g * y
    read beside ? sigmoid(query_gate) * h : h)",
      .source = "Beck et al. 2024, arXiv 2405.04517",
      .notes =
          "c_t = f c_{t-1} + e^i tanh(v_t + U h_{t-1}) and n_t = f n_{t-1} + e^i are kept as y = c / n and L = log n, so that no exponential "
          "overflows. Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x the query's embedding.",
      .options = {choice(
          "start", "plain",
          "plain: b of f is 1, U starts as U(-1/sqrt(V), 1/sqrt(V)); released: U is 0 and b of i is 5 - 12 "
          "x^0.3, x from 0 to 1 over the channels, as the first layer of the released code runs (it exchanges i and f); layers: the same with "
          "x^(0.3 + 1.3 depth), depth from 0 in the first layer to 1 in the last, as all of its layers run",
          {"plain", "released", "layers"})},
      .inputs = {{.name = "input_gate", .open = Open{0}},
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
      .keeps_keys = true,
      .check =
          [](Options& o) {
            if (o.get_string("memory.start") == "layers" && !has_later_layers(o))
              o.set("memory.start", "released");
          },
      .published = {
          .source = "; NX-AI/xlstm@032a6fb xlstm/blocks/slstm/layer.py",
          .settings = "memory.start=layers, input_conv=input_gate forget_gate, "
                      "short_conv_bias=true, projection_start=small, out_norm=group, "
                      "out_norm_bias=false",
          .lacks = {
              {"maps of gates and values head by head with none behind the norm (here full maps, and an output projection)",
               "about twice the weights, which can say the same; heads see each other"},
              {"the slope of the gates' biases at the forget gate (here at the input gate), and a bias of the values",
               "no clear effect on parity in three seeds; fewer weights"}}}};
}
