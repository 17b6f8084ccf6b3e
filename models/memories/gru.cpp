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
      .equation =
          "n = tanh(v_t + sigmoid(r_t + U_r h_{t-1}) * U_n h_{t-1}), h_t = (1 - z) n + z h_{t-1}, z = "
          "sigmoid(z_t + U_z h_{t-1}), o = h",
      .laws = "r, z = W token + b, of the values' size; U starts as U(-1/sqrt(V), 1/sqrt(V))",
      .source = "Cho et al. 2014, arXiv 1406.1078",
      .notes =
          "Heads are blocks of U. There are no queries: beside the sequence h is read times sigmoid(R x), x "
          "the "
          "query's embedding.",
      .flops = [](const Options&, double, double V, double T, double) { return 18 * V * V * T; },
      .inputs =
          {{.name = "reset_gate", .per = Per::value, .symbol = "r_t"},
           {.name = "update_gate", .per = Per::value, .symbol = "z_t"},
           {.name = "u_reset", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_r", .open = Open{0}},
           {.name = "u_update", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_z", .open = Open{0}},
           {.name = "u_new", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_n", .open = Open{0}},
           {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .states = {"h"},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true,
      .state = [](const Options&, std::int64_t, std::int64_t V, std::int64_t) { return V; },
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
