// Mamba-3 with several inputs and outputs: a token writes N keys with N values into one state, and N queries read it
// (Mamba-3 2026, arXiv 2603.15569; state-spaces/mamba@e9594ce tests/ops/tilelang/test_mamba3_mimo.py mamba3_MIMO_step_ref).
//
//   h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t sum_n p_n v_{n,t-1} k'_{n,t-1}^T + lambda_t step_t sum_n p_n v_{n,t} k'_{n,t}^T
//   o   = sum_n c_n (h q'_n + skip p_n v_n)          p_n, c_n in R^V, element by element; there R, mimo_v, mimo_o, D
//
// k' and q' as models/parts/mamba3.h turns them. The writes of a token are steps of the engine, of which the first decays.
// In C++: as mamba3, and the language of laws has one query.
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/mamba3.h"

CROSSTALK_MEMORY(mamba3_mimo) {
  return mamba3_memory(
      {.summary = "Mamba-3 that writes several keys a token into one state and reads it by as many queries",
       .does = "as mamba3, with several keys, values and queries a token for one state (MIMO)",
       .equation =
           "h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t sum_n p_n v_{n,t-1} k'_{n,t-1}^T + lambda_t step_t sum_n p_n v_{n,t} k'_{n,t}^T, "
           "o = sum_n c_n (h q'_n + skip p_n v_n), k'_n = R_t (k_n + k_bias_n), q'_n = R_t (q_n + q_bias_n), R_t as in mamba3",
       .laws =
           "step, alpha, lambda and angle as in mamba3, biases of k and q start at 1, p_n and c_n at 1 / N, skip at 1",
       .source = "Mamba-3 2026, arXiv 2603.15569",
       .notes =
           "Channels behind 2 angles are not turned. In models the v_n of a token are one value v, and p_n v are different ones.",
       .flops =
           [](const Options& o, double K, double V, double T, double Q) {
             const auto writes = static_cast<double>(o.get_int("memory.writes"));
             return writes * writes * flops::weights<16>(o, K, V, T, Q);
           },
       .options = {number("writes", 4, "keys, values and queries of a token (N)", 1, 16, {2}),
                   {"skip", false, "whether a read has skip p_n v_n of the token at which a query stands"}},
       .inputs = {{.name = "value_share", .per = Per::other, .shape = "[H,N,V]", .symbol = "p"},
                  {.name = "read_share", .per = Per::other, .shape = "[H,N,V]", .symbol = "c"},
                  {.name = "skip", .per = Per::head, .optional = true}},
       .several_queries = true,
       .build =
           [](auto& m) {
             const auto share = [&](const char* name) {  // [1,N,H,V]
               return beside_rows(m, m.input(name, [&] {
                 return m.parameter(name, {m.H, m.N * m.V}, Init::constant(1.0 / m.N));
               }));
             };
             const auto p = share("value_share"), c = share("read_share");
             const auto scaled = [&](auto v) { return side_by_side(m, v) * p; };  // [B T,N,H,V]
             const auto written = [&](auto v) { return view(scaled(v), {m.B, m.writes(), m.H, m.V}); };
             const auto o = mamba3_read(m, written, [&](auto q, const auto& one) {
               auto queries = side_by_side(m, q), shares = c;
               const auto next = [&] {  // the last of them
                 return last_token(shares) * one(view(last_token(queries), {m.B, m.Q, m.H, m.K}));
               };
               auto sum = next();
               for (int n = 1; n < m.N; ++n) {
                 queries = delayed(queries), shares = delayed(shares);
                 sum = sum + next();
               }
               return sum;
             });
             if (m.learned() ? !m.flag("skip") : !m.has_input("skip")) return o;
             const auto skip = m.input("skip", [&] { return m.parameter("skip", {m.H}, Init::constant(1)); });
             const auto own = fold(c * scaled(m.values()), {m.B * m.T, 1, m.H, m.V});
             return o + skip * m.at_queries(view(own, {m.B, m.T, m.H, m.V}));
           },
       .published =
           {.source = "; state-spaces/mamba@e9594ce mamba_ssm/modules/mamba3.py",
            .settings = "memory.skip=true",
            .undecayed = {"memory.skip"},
            .lacks = {{"a gate of every query, the token's times numbers that start at 1 (here one gate)",
                       "the same at the start; what gates of their own would then tell apart is not"}}}},
      {.name = "k_bias", .per = Per::other, .shape = "[H,N,K]", .open = Open{0}}, "[B,N,H,K]", "[B,N,H,V]");
}
