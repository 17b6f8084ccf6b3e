// GRU: the gated recurrent unit (Cho et al. 2014, arXiv 1406.1078, in the form whose reset gate comes after U). A nonlinear
// recurrence over the values' channels: a ceiling of state tracking, no associative memory.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gru() {
  return {
      .name = "gru",
      .summary = "gated recurrent unit over the values' channels: a nonlinear recurrence",
      .does = "averages a hidden state and its own proposal (nonlinear; a ceiling of state tracking)",
      .family = Family::own_law,
      .law = R"(
    state h[V]
    r = sigmoid(reset_gate + u_reset h)
    z = sigmoid(update_gate + u_update h)
    h = (1 - z) * tanh(v + r * (u_new h)) + z * h
    read h)",
      .laws = "gates are W token + b, of the values' size; u starts as U(-1/sqrt(V), 1/sqrt(V))",
      .source = "Cho et al. 2014, arXiv 1406.1078",
      .notes =
          "Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x "
          "the "
          "query's embedding.",
      .flops = [](const Options&, double, double V, double T, double) { return 18 * V * V * T; },
      .inputs = {{.name = "reset_gate", .per = Per::value},
                 {.name = "update_gate", .per = Per::value},
                 {.name = "u_reset", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "u_update", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "u_new", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}},
                 {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true,
      .build =
          [](auto& m) {
            const auto gate = [&](const char* name) {
              return m.input(name, [&] { return m.token(name, m.V, Init::constant(0)); });
            };
            const auto held = [&](const char* name) {
              return m.input(name, [&] {
                return m.parameter(name, {m.H, m.V * m.V},
                                   Init::uniform(1 / std::sqrt(static_cast<double>(m.V))));
              });
            };
            const auto r = gate("reset_gate"), z = gate("update_gate");
            const auto of_r = held("u_reset"), of_z = held("u_update"), of_n = held("u_new");
            const auto h = cell_read(m, Cell::gru, {r, z, m.values()}, {of_r, of_z, of_n});
            return m.learned() && !m.at_tokens() ? sigmoid(m.asking("query_gate", m.V)) * h : h;
          }};
}

}  // namespace crosstalk::memories
