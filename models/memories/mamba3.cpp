// Mamba-3 (single input, single output): a scalar decay, a write that averages this token's and the last one's (the
// trapezoidal rule), and keys and queries turned by angles that add up from token to token:
//
//   h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t v_{t-1} k'_{t-1}^T + lambda_t step_t v_t k'_t^T
//   o   = h q',   k'_t = R_t (k_t + k_bias),   q' = R_t (q + q_bias),   R_t turns pair c by angle_1c + .. + angle_tc
//
// (Mamba-3 2026, arXiv 2603.15569; q, k, v are its C, B, x.) The state is the sum of two recurrences with the same decay, the
// second of which writes the tokens one later.
// In C++: channels turn in pairs and states are called k, v and angle, for which the language of laws has no words.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mamba3) {
  return {
      .summary =
          "sum rule with a scalar decay, trapezoidal writes, and keys turned by angles that tokens say",
      .does =
          "decay and trapezoidal writes by a data-dependent step, keys and queries rotated by what tokens say",
      .family = Family::adds,
      .equation =
          "h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t v_{t-1} k'_{t-1}^T + lambda_t step_t v_t k'_t^T, o = h q', k' = R_t (k + k_bias), "
          "q' = R_t (q + q_bias), R_t turns channels 2c and 2c + 1 by the sum of angle_c up to token t",
      .laws =
          "step_t = softplus(w.token + b), alpha_t = exp(-step_t f(w'.token + b')), f(x) = 1 + x for x > 0, 1 / (1 - x) below (rate rational), or "
          "softplus, lambda_t = sigmoid(w''.token + b''), angle_t = step_t pi tanh(W token + b), biases of k and q start at 1",
      .source = "Mamba-3 2026, arXiv 2603.15569",
      .notes = "Channels behind 2 angles are not turned.",
      .bounded_by_rank = true,
      .flops = flops::weights<16>,
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {{.name = "angles",
            .default_value = 4,
            .help =
                "pairs of channels that are turned (all of them where there are fewer; 0: of a quarter of a head's key channels, as its "
                "authors turn them)",
            .min = 0,
            .max = 4096,
            .tried = {1, 3}},
           choice("rate", "rational",
                  "f of the decay: 1 + x above 0 and 1 / (1 - x) below, as its authors have it, or softplus",
                  {"rational", "softplus"})},
      .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "step", .range = {0.05, 0.95}},
                 {.name = "mix", .symbol = "lambda", .range = {0.05, 0.95}},
                 {.name = "angle", .per = Per::other, .shape = "[B,T,H,A]", .open = Open{0}},
                 {.name = "k_bias", .per = Per::head_key, .open = Open{0}},
                 {.name = "q_bias", .per = Per::head_key, .open = Open{0}},
                 {.name = "k0", .per = Per::other, .optional = true, .shape = "[B,H,K]"},
                 {.name = "v0", .per = Per::other, .optional = true, .shape = "[B,H,V]"},
                 {.name = "angle0", .per = Per::other, .optional = true, .shape = "[B,H,A]"}},
      .states = {"S", "k", "v", "angle"},
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return K * V + K + V + std::min(o.get_int("memory.angles"), K / 2); },
      .letters = {{'A', "angles"}},
      .check =
          [](Options& o) {
            if (o.get_int("memory.angles") == 0)
              o.set("memory.angles", std::max<std::int64_t>(1, head_d_key(o) / 4));
          },
      .build =
          [](auto& m) {
            auto [q, k] = features(m);
            const int angles = m.integer("angles");
            const auto step = m.input(
                "step", [&] { return softplus(m.token("step", 1, Init::inverse_softplus(1e-3, 0.1))); });
            const auto g = m.input("log_decay", [&] {
              const auto x = m.token("rate");
              if (m.text("rate") == "softplus") return -(softplus(x) * step);
              return -((map(MapKind::reciprocal, 1.0 + map(MapKind::relu, -x)) + map(MapKind::relu, x)) *
                       step);
            });
            const auto mix = m.input("mix", [&] { return sigmoid(m.token("mix")); });
            const auto angle = m.input("angle", [&] {
              return std::acos(-1.0) * (step * map(MapKind::tanh, m.token("angle", angles)));
            });
            const auto one = [&](const char* name) {
              return m.input(name, [&] { return m.parameter(name, {m.H, m.K}, Init::constant(1)); });
            };
            const auto still = expand(m.constant([](int) { return 0.0; }), {m.B, m.T, m.H, angles});
            const auto turn = scan(still, expand(angle, {m.B, m.T, m.H, angles}), m.start("angle"));
            k = turned(k + one("k_bias"), turn);
            q = turned(q + one("q_bias"), m.at_queries(turn));
            if (!m.start("k") != !m.start("v"))
              throw OptionError(
                  "memory.name",
                  "mamba3: k0 and v0 are of the token before, whose write is their product; give both or none");
            PartOfState now{m.start("S"), decltype(q){}}, before{decltype(q){}, decltype(q){}};
            const auto own = read(m, q, {.key = k, .gain = mix * step, .log_decay = g, .part = &now});
            const auto last = read(m, q,
                                   {.key = delayed(k, m.start("k")),
                                    .value = delayed(m.values(), m.start("v")),
                                    .gain = (1.0 - mix) * step * exp(g),
                                    .log_decay = g,
                                    .part = &before});
            if (m.wants_end()) {
              m.end("S", now.end + before.end);
              m.end("k", last_token(k)), m.end("v", last_token(m.values())), m.end("angle", last_token(turn));
            }
            return own + last;
          },
      .published =
          {.source = "; state-spaces/mamba@e9594ce mamba_ssm/modules/mamba3.py",
           .settings = "memory.angles=0, key_groups=1, qk_norm=shared, "
                       "biases=-out_gate -rate -mix -angle, out_skip=head, out_gate=silu",
           .expand_k = 0.5,
           .expand_v = 2,
           .undecayed = {"step.bias", "out_skip"},
           .lacks = {
               {"a state of 128 numbers a value channel (here a quarter of the width; model.d_key = 128 model.heads sets it)",
                "a state 8 times smaller at width 64: it holds less where the state decides"},
               {"angles that all heads share (here each has its own)",
                "more weights, which can say the same"},
               {"maps that start as nn.Linear does, the output's smaller the more layers there are",
                "the first steps of training differ"}}}};
}
