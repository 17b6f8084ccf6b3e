// LSTM: long short-term memory, whose gates see the hidden state (Hochreiter and Schmidhuber 1997; forget gates: Gers et al.
// 2000). A nonlinear recurrence over the values' channels: a ceiling of state tracking, no associative memory.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory lstm() {
  return {
      .name = "lstm",
      .summary = "long short-term memory over the values' channels: a nonlinear recurrence",
      .does =
          "updates a cell through gates that see the hidden state (nonlinear; a ceiling of state tracking)",
      .family = Family::own_law,
      .law = R"(
    state h[V]
    state c[V]
    i = sigmoid(input_gate + u_input h)
    f = sigmoid(forget_gate + u_forget h)
    g = sigmoid(output_gate + u_output h)
    c = f * c + i * tanh(v + u_cell h)
    h = g * tanh(c)
    read h)",
      .laws =
          "gates are W token + b, of the values' size; b of forget_gate starts at 1, u as U(-1/sqrt(V), 1/sqrt(V))",
      .source = "Hochreiter and Schmidhuber 1997; Greff et al. 2015, arXiv 1503.04069",
      .notes =
          "Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x "
          "the "
          "query's embedding.",
      .flops = [](const Options&, double, double V, double T, double) { return 24 * V * V * T; },
      .inputs = {{.name = "input_gate", .per = Per::value},
                 {.name = "forget_gate", .per = Per::value},
                 {.name = "output_gate", .per = Per::value},
                 {.name = "u_input", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "u_forget", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "u_cell", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "u_output", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,V]"},
                 {.name = "c0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true,
      .build =
          [](auto& m) {
            const auto gate = [&](const char* name, double bias) {
              return m.input(name, [&] { return m.token(name, m.V, Init::constant(bias)); });
            };
            const auto held = [&](const char* name) {
              return m.input(name, [&] {
                return m.parameter(name, {m.H, m.V * m.V},
                                   Init::uniform(1 / std::sqrt(static_cast<double>(m.V))));
              });
            };
            const auto i = gate("input_gate", 0), f = gate("forget_gate", 1), o = gate("output_gate", 0);
            const auto of_i = held("u_input"), of_f = held("u_forget"), of_z = held("u_cell"),
                       of_o = held("u_output");
            const auto h = cell_read(m, Cell::lstm, {i, f, m.values(), o}, {of_i, of_f, of_z, of_o});
            return m.learned() && !m.at_tokens() ? sigmoid(m.asking("query_gate", m.V)) * h : h;
          }};
}

}  // namespace crosstalk::memories
