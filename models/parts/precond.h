// What both preconditioned delta rules share (arXiv 2604.21100): they write along M_t * k_t, where M_t shrinks key channels that
// were written much.
//
//   A_t = e^{g_t} A_{t-1} + b_t k_t^2      M_t = x^(-r / (1 + |r|)), r = log(A_t + 1e-6) - c, x = squash
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <vector>

#include "models/memories/memory_file.h"

namespace crosstalk::precond {

inline OptionSpec squash() {
  return {.name = "squash",
          .default_value = 1.5,
          .help = "M lies between 1 / squash and squash (x)",
          .min = 1,
          .max = 2,
          .tried = {1.0, 1.5}};
}
/// Inputs of a memory whose decay is one a token or a key channel.
inline std::vector<MemoryInput> inputs(Per decay) {
  return {{.name = "log_decay", .per = decay, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
          {.name = "beta", .range = {0.05, 0.95}},
          {.name = "log_decay_a", .symbol = "g", .range = {-1.5, -0.01, -20}},
          {.name = "beta_a", .symbol = "b", .range = {0.05, 0.95}},
          {.name = "center", .per = Per::head, .symbol = "c", .open = Open{0}},
          {.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,K]"}};
}
/// S and A.
inline std::int64_t state(const Options&, std::int64_t K, std::int64_t V, std::int64_t) {
  return K * (V + 1);
}

/// What a query reads of a state that fades by g, gives way along k and is written along M * k.
template <class Real>
Var<Real> read_written(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> beta, Var<Real> g) {
  const auto g_a = m.input("log_decay_a", [&] { return mamba_law(m, 1, "_a"); });
  const auto beta_a = m.input("beta_a", [&] { return sigmoid(m.token("beta_a")); });
  const auto center = m.input("center", [&] { return m.parameter("center", {m.H}, Init::constant(-0.2)); });
  const auto used = scan(expand(g_a, {m.B, m.T, m.H, m.K}), beta_a * (k * k), m.start("A"));
  if (m.wants_end()) m.end("A", last_token(used));
  const auto r = log(1e-6 + used) - center;
  const auto precondition = exp(map(MapKind::softsign, r, -std::log(m.number("squash"))));
  return read(m, q,
              {.key = precondition * k,
               .gain = beta,
               .log_decay = g,
               .erase = Erase::tied,
               .erase_read = k,
               .erase_gain = beta});
}

}  // namespace crosstalk::precond
