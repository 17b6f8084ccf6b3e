// sLSTM of xLSTM: an LSTM with exponential input gates and a divisor, whose gates see the hidden state (Beck et al. 2024, arXiv
// 2405.04517, eqs 8 to 18). A nonlinear recurrence over the values' channels, head by head.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {
namespace {

/// 5 - 12 x^0.3, x from 0 to 1 over the channels of a head, of all heads.
std::vector<double> released_biases(int H, int V) {
  std::vector<double> biases;
  for (int h = 0; h < H; ++h) {
    for (int i = 0; i < V; ++i)
      biases.push_back(5 - 12 * std::pow(V == 1 ? 0.0 : static_cast<double>(i) / (V - 1), 0.3));
  }
  return biases;
}

}  // namespace

Memory slstm() {
  return {
      .name = "slstm",
      .summary = "LSTM with exponential input gates over the values' channels: a nonlinear recurrence",
      .does = "averages cells by exponential input gates that see the hidden state (nonlinear)",
      .family = Family::own_law,
      .equation =
          "c_t = f c_{t-1} + e^i tanh(v_t + U_z h_{t-1}), n_t = f n_{t-1} + e^i, h_t = sigmoid(o_t + U_o "
          "h_{t-1}) c_t / n_t, i = i_t + U_i h_{t-1}, f = sigmoid(f_t + U_f h_{t-1}), o = h",
      .laws = "i, f, o = W token + b, of the values' size (start: plain or released)",
      .source = "Beck et al. 2024, arXiv 2405.04517",
      .notes =
          "Kept as y = c / n and L = log n, so that no exponential overflows. Heads are blocks of U. There "
          "are no "
          "queries: beside the sequence h is read times sigmoid(R x), x the query's embedding.",
      .flops = [](const Options&, double, double V, double T, double) { return 24 * V * V * T; },
      .options =
          {{"start",
            std::string("plain"),
            "plain: b of f is 1, U starts as U(-1/sqrt(V), 1/sqrt(V)); released: U is 0 and b of i is 5 - 12 "
            "x^0.3, x from 0 to 1 over the channels, as the released code runs (it exchanges i and f)",
            0,
            0,
            {"plain", "released"}}},
      .inputs =
          {{.name = "input_gate", .per = Per::value, .symbol = "i_t", .open = Open{0}},
           {.name = "forget_gate", .per = Per::value, .symbol = "f_t"},
           {.name = "output_gate", .per = Per::value, .symbol = "o_t"},
           {.name = "u_input", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_i", .open = Open{0}},
           {.name = "u_forget", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_f", .open = Open{0}},
           {.name = "u_cell", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_z", .open = Open{0}},
           {.name = "u_output", .per = Per::other, .shape = "[H,V,V]", .symbol = "U_o", .open = Open{0}},
           {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,V]"},
           {.name = "y0", .per = Per::other, .optional = true, .shape = "[B,H,V]"},
           {.name = "l0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .states = {"h", "y", "L"},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .token_by_token = true,
      .own_token = true,
      .keeps_keys = true,
      .state = [](const Options&, std::int64_t, std::int64_t V, std::int64_t) { return 3 * V; },
      .build =
          [](auto& m) {
            const bool released = m.text("start") == "released";
            const auto gate = [&](const char* name, const Init& bias) {
              return m.input(name, [&] { return m.token(name, m.V, bias); });
            };
            const auto held = [&](const char* name) {
              return m.input(name, [&] {
                const double scale = released ? 0 : 1 / std::sqrt(static_cast<double>(m.V));
                return m.parameter(name, {m.H, m.V * m.V},
                                   released ? Init::constant(0) : Init::uniform(scale));
              });
            };
            const auto i = gate("input_gate",
                                released ? Init::listed(released_biases(m.H, m.V)) : Init::constant(0)),
                       f = gate("forget_gate", Init::constant(released ? 0 : 1)),
                       o = gate("output_gate", Init::constant(0));
            const auto of_i = held("u_input"), of_f = held("u_forget"), of_z = held("u_cell"),
                       of_o = held("u_output");
            const auto h = cell_read(m, Cell::slstm, {i, f, m.values(), o}, {of_i, of_f, of_z, of_o});
            return m.learned() && !m.at_tokens() ? sigmoid(m.asking("query_gate", m.V)) * h : h;
          },
      .published =
          {
              .source = "Beck et al. 2024, arXiv 2405.04517; NX-AI/xlstm@032a6fb xlstm/blocks/slstm/layer.py",
              .set = {{"memory.start", "released"},
                      {"model.out_norm", "group"},
                      {"model.out_norm_bias", false}},
              .lacks = "the convolution in front of input and forget gates, maps of them head by head, and a "
                       "slope of "
                       "their biases that depends on the layer",
          }};
}

}  // namespace crosstalk::memories
