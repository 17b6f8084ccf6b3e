// SPDX-License-Identifier: Apache-2.0
#include "models/rules/kernels.h"

#include <map>

#include "models/engines.h"
#include "models/laws.h"
#include "models/parts/tokens.h"

namespace crosstalk::rules {

const LawKernel* kernel_of_law(const std::string& memory) {
  static const std::map<std::string, LawKernel> all = {
      {"fwm", [](auto& m, const auto& x) { return fwm_read(m, x("q"), x("k"), x("beta")); }},
      {"gru",
       [](auto& m, const auto& x) {
         return cell_read(m, Cell::gru, {x("reset_gate"), x("update_gate"), x("v")},
                          {x("u_reset"), x("u_update"), x("u_new")});
       }},
      {"lstm",
       [](auto& m, const auto& x) {
         return cell_read(m, Cell::lstm, {x("input_gate"), x("forget_gate"), x("v"), x("output_gate")},
                          {x("u_input"), x("u_forget"), x("u_cell"), x("u_output")});
       }},
      {"slstm",
       [](auto& m, const auto& x) {
         return cell_read(m, Cell::slstm, {x("input_gate"), x("forget_gate"), x("v"), x("output_gate")},
                          {x("u_input"), x("u_forget"), x("u_cell"), x("u_output")});
       }},
      {"longhorn_diagonal",
       [](auto& m, const auto& x) {
         const auto gain = x("D");
         if (m.graph.device() == Device::cuda)
           return diagonal_read(m, x("q"), x("k"), {.step = gain, .of_keys = true});
         // Rows of the state as heads of a scan: x [B,n,H,K] -> [B,n,H V,K].
         const auto rows = [&](auto of, int n) {
           return view(expand(view(of, {m.B * n, m.H, 1, m.K}), {m.B * n, m.H, m.V, m.K}),
                       {m.B, n, m.H * m.V, m.K});
         };
         const auto channels = [&](auto of) { return view(of, {m.B, m.T, m.H * m.V, 1}); };
         const auto keys = rows(x("k"), m.T);
         const auto decay = log(1.0 - channels(gain) * (keys * keys));  // D k^2 < 1
         m.watch_decay(decay, true);
         auto from = m.start("S");
         if (from) from = view(from, {m.B, 1, m.H * m.V, m.K});
         const auto state = scan(decay, channels(gain * x("v")) * keys, from);
         if (m.wants_end()) m.end("S", view(last_token(state), {m.B, m.H, m.V, m.K}));
         const auto read = fold(m.at_queries(state) * rows(x("q"), m.Q), {m.B, m.Q, m.H * m.V, 1});
         return view(read, {m.B, m.Q, m.H, m.V});
       }},
      {"mamba1",
       [](auto& m, const auto& x) {
         return diagonal_read(m, x("q"), x("k"),
                              {.step = x("step"),
                               .log_rate = x("log_rate"),
                               .either_sign = m.text("eigenvalues") == "either"});
       }},
      {"rwkv4", [](auto& m, const auto& x) { return wkv_read(m, x("k"), x("log_decay"), x("bonus")); }},
      {"s4d",
       [](auto& m, const auto& x) {
         return diagonal_read(m, x("q"), x("k"),
                              {.step = x("step"),
                               .log_rate = x("log_rate"),
                               .angle = x("angle"),
                               .read = x("read"),
                               .read_imag = x("read_imag")});
       }},
      {"mesa",
       [](auto& m, const auto& x) {
         return ridge_read(m, x("q"), x("k"), x("beta"), x("log_decay"), x("ridge"), m.integer("iterations"));
       }},
      {"mlstm",
       [](auto& m, const auto& x) {
         return stabilised_read(m, x("q"), {.key = x("short"), .log_decay = x("log_decay")}, x("log_input"),
                                "n");
       }},
      {"titans_linear",
       [](auto& m, const auto& x) {
         return network_read(m, x("q"), x("k"),
                             {.mini_batch = m.integer("mini_batch"),
                              .rate = x("rate"),
                              .momentum = x("momentum_gate"),
                              .forget = x("forget_gate"),
                              .states = {nullptr, nullptr, "S", nullptr, nullptr, nullptr, "P"},
                              .begin = {{}, {}, x("start")}});
       }},
      {"titans_mlp",
       [](auto& m, const auto& x) {
         return network_read(m, x("query"), x("key"),
                             {.hidden = hidden(m.K),
                              .mini_batch = m.integer("mini_batch"),
                              .rate = x("rate"),
                              .momentum = x("momentum_gate"),
                              .forget = x("forget_gate"),
                              .states = {"W1", nullptr, "W2", nullptr, "P1", nullptr, "P2"},
                              .begin = {x("w1_0"), {}, x("w2_0")}});
       }},
      {"ttt_linear",
       [](auto& m, const auto& x) {
         return network_read(m, x("q"), x("k"),
                             {.biases = true,
                              .residual = m.flag("residual"),
                              .mini_batch = m.integer("mini_batch"),
                              .rate = x("rate"),
                              .gain = x("gain"),
                              .bias = x("bias"),
                              .states = {nullptr, nullptr, "S", "b"},
                              .begin = {{}, {}, x("start"), x("start_b")}});
       }},
      {"ttt_mlp", [](auto& m, const auto& x) {
         return network_read(m, x("q"), x("k"),
                             {.hidden = hidden(m.K),
                              .biases = true,
                              .residual = m.flag("residual"),
                              .mini_batch = m.integer("mini_batch"),
                              .rate = x("rate"),
                              .gain = x("gain"),
                              .bias = x("bias"),
                              .states = {"W1", "b1", "W2", "b2"},
                              .begin = {x("w1_0"), x("b1_0"), x("w2_0"), x("b2_0")}});
       }}};
  const auto found = all.find(memory);
  return found == all.end() ? nullptr : &found->second;
}

}  // namespace crosstalk::rules
