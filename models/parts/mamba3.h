// What Mamba-3 with one input and output a token (models/memories/mamba3.cpp) and with several (mamba3_mimo.cpp) share. Of several a token has
// N keys, N values and N queries, and N = 1 is the other:
//
//   h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t sum_n v_{n,t-1} k'_{n,t-1}^T + lambda_t step_t sum_n v_{n,t} k'_{n,t}^T
//   o_n = h q'_n,   k'_n = R_t (k_n + k_bias_n),   q'_n = R_t (q_n + q_bias_n),   R_t turns pair c by angle_1c + .. + angle_tc
//
// (Mamba-3 2026, arXiv 2603.15569; q, k, v are its C, B, x.) The state is the sum of two recurrences with the same decay, the
// second of which writes the tokens one later.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

namespace crosstalk {

/// A memory with what both have; `bias` is that of keys, and that of queries is as large; the token before has keys and values of these shapes.
inline Memory mamba3_memory(Memory own, const MemoryInput& bias, const std::string& keys,
                            const std::string& values) {
  MemoryInput of_queries = bias;
  of_queries.name = "q_bias";
  const auto start = [](const char* name, const std::string& shape) {
    return MemoryInput{.name = name, .per = Per::other, .optional = true, .shape = shape};
  };
  own.family = Family::adds;
  own.parts = {feature_map("identity"), key_norm("none")};
  own.options.insert(
      own.options.begin(),
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
              {"rational", "softplus"})});
  own.inputs.insert(own.inputs.begin(),
                    {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                     {.name = "step", .range = {0.05, 0.95}},
                     {.name = "mix", .symbol = "lambda", .range = {0.05, 0.95}},
                     {.name = "angle", .per = Per::other, .shape = "[B,T,H,A]", .open = Open{0}},
                     bias,
                     of_queries});
  own.inputs.insert(own.inputs.end(), {start("k0", keys), start("v0", values), start("angle0", "[B,H,A]")});
  own.states = {"S", "k", "v", "angle"};
  own.letters = {{'A', "angles"}};
  own.state = [](const Options& o, std::int64_t K, std::int64_t V, std::int64_t) {
    const std::int64_t N = o.has("memory.writes") ? o.get_int("memory.writes") : 1;
    return K * V + N * (K + V) + std::min(o.get_int("memory.angles"), K / 2);
  };
  own.check = [](Options& o) {
    if (o.get_int("memory.angles") == 0) o.set("memory.angles", std::max<std::int64_t>(1, head_d_key(o) / 4));
  };
  own.published.settings =
      "memory.angles=0, key_groups=1, qk_norm=shared, biases=-out_gate -rate -mix -angle, " +
      own.published.settings + ", out_gate=silu";
  own.published.expand_k = 0.5, own.published.expand_v = 2;
  own.published.undecayed.insert(own.published.undecayed.begin(), "step.bias");
  own.published.lacks.insert(
      own.published.lacks.begin(),
      {{"a state of 128 numbers a value channel (here a quarter of the width; model.d_key = 128 model.heads sets it)",
        "a state 8 times smaller at width 64: it holds less where the state decides"},
       {"angles that all heads share (here each has its own)", "more weights, which can say the same"},
       {"maps that start as nn.Linear does, the output's smaller the more layers there are",
        "the first steps of training differ"}});
  return own;
}

/// x [B,n N,H,c] as [B n,N,H,c]: rows of a token, or of what asks, side by side.
template <class Real>
Var<Real> side_by_side(const Mixer<Real>& m, Var<Real> x) {
  return view(x, {Size(x.dim(0) * x.dim(1) / m.N), m.N, Size(x.dim(2)), Size(x.dim(3))});
}
/// Numbers of a head [1,1,H,N c] beside them, [1,N,H,c].
template <class Real>
Var<Real> beside_rows(const Mixer<Real>& m, Var<Real> x) {
  return swap(view(x, {1, m.H, m.N, Size(x.dim(3) / m.N)}));
}

/// What `reads` makes of queries q' [B,Q N,H,K] and of what one query a row reads; `written` makes the values that are written of those
/// of tokens, or is null.
template <class Real, class Written, class Reads>
Var<Real> mamba3_read(Mixer<Real>& m, const Written& written, const Reads& reads) {
  auto [q, k] = features(m);
  const int angles = m.integer("angles");
  const auto step =
      m.input("step", [&] { return softplus(m.token("step", 1, Init::inverse_softplus(1e-3, 0.1))); });
  const auto g = m.input("log_decay", [&] {
    const auto x = m.token("rate");
    if (m.text("rate") == "softplus") return -(softplus(x) * step);
    return -((map(MapKind::reciprocal, 1.0 + map(MapKind::relu, -x)) + map(MapKind::relu, x)) * step);
  });
  const auto mix = m.input("mix", [&] { return sigmoid(m.token("mix")); });
  const auto angle = m.input(
      "angle", [&] { return std::acos(-1.0) * (step * map(MapKind::tanh, m.token("angle", angles))); });
  const auto shaped = [&](Var<Real> x, Size rows) { return view(x, {m.B, rows, m.H, Size(x.dim(3))}); };
  const auto biased = [&](Var<Real> x, const char* name) {
    const auto bias = m.input(name, [&] { return m.parameter(name, {m.H, m.N * m.K}, Init::constant(1)); });
    return shaped(side_by_side(m, x) + beside_rows(m, bias), Size(x.dim(1)));
  };
  const auto each = [&](Var<Real> x) {  // once for every row of a token, or of what asks
    const Size n(x.dim(1)), c(x.dim(3));
    return shaped(expand(view(x, {m.B * n, 1, m.H, c}), {m.B * n, m.N, m.H, c}), n * m.N);
  };
  const auto still = expand(m.constant([](int) { return 0.0; }), {m.B, m.T, m.H, angles});
  const auto turn = scan(still, expand(angle, {m.B, m.T, m.H, angles}), m.start("angle"));
  k = turned(biased(k, "k_bias"), each(turn));
  q = turned(biased(q, "q_bias"), each(m.at_queries(turn)));
  if (!m.start("k") != !m.start("v"))
    throw OptionError(
        "memory.name",
        m.text("name") +
            ": k0 and v0 are of the token before, whose write is their product; give both or none");
  const auto rows = [&](Var<Real> x) { return view(x, {m.B, m.T, m.N * m.H, Size(x.dim(3))}); };
  const auto before = [&](Var<Real> x, const char* state) {
    return shaped(delayed(rows(x), m.start(state)), m.writes());
  };
  const auto as_written = [&](Var<Real> v) {
    if constexpr (std::is_null_pointer_v<Written>)
      return v;
    else
      return written(v);
  };
  PartOfState<Real> now{m.start("S"), {}}, late;
  Recurrence<Real> own = {.key = k, .gain = each(mix * step), .log_decay = g, .part = &now}, last;
  if (!std::is_null_pointer_v<Written>) own.value = as_written(m.values());
  // Gradients are summed in the order of nodes: the token before comes behind the first read.
  const Var<Real> o = reads(q, [&](Var<Real> one) {
    const Var<Real> of_own = read(m, one, own);
    if (!last.key)
      last = {.key = before(k, "k"),
              .value = as_written(before(m.values(), "v")),
              .gain = each((1.0 - mix) * step * exp(g)),
              .log_decay = g,
              .part = &late};
    return of_own + read(m, one, last);
  });
  if (m.wants_end()) {
    m.end("S", now.end + late.end), m.end("k", last_token(rows(k))), m.end("v", last_token(rows(m.values())));
    m.end("angle", last_token(turn));
  }
  return o;
}

}  // namespace crosstalk
