// Mamba-3 with several inputs and outputs (2026, arXiv 2603.15569): its recurrence, and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mamba3_mimo_test {

CROSSTALK_HALF_LIFE(mamba3_mimo, 49.003);
CROSSTALK_START(mamba3_mimo, rate, "softplus", 93.4, 0);

/// Row n of numbers that lie one behind the other.
Vector row_of(const Vector& x, int n, int size) {
  return {x.begin() + std::ptrdiff_t{n} * size, x.begin() + std::ptrdiff_t{n + 1} * size};
}
Vector turned(Vector x, const Vector& angle) {
  for (std::size_t c = 0; c < angle.size() && 2 * c + 1 < x.size(); ++c) {
    const double a = x[2 * c], b = x[2 * c + 1];
    x[2 * c] = std::cos(angle[c]) * a - std::sin(angle[c]) * b;
    x[2 * c + 1] = std::sin(angle[c]) * a + std::cos(angle[c]) * b;
  }
  return x;
}

Matrix mamba3_mimo(const Sequence& s) {
  const int N = static_cast<int>(s.v.size()) / s.T;
  Matrix h = zeros(s.V, s.K), o, k(static_cast<std::size_t>(N), Vector(static_cast<std::size_t>(s.K), 0)),
         v = zeros(N, s.V);
  Vector angle(s.row("angle", 0).size(), 0);
  for (int t = 0; t < s.T; ++t) {
    const double step = s.number("step", t), mix = s.number("mix", t),
                 alpha = std::exp(s.number("log_decay", t));
    angle = plus(angle, 1, s.row("angle", t));
    h = times(alpha, h);
    o.push_back(Vector(static_cast<std::size_t>(s.V), 0));
    for (std::size_t n = 0; n < k.size(); ++n) h = plus_outer(h, (1 - mix) * step * alpha, v[n], k[n]);
    for (int n = 0; n < N; ++n) {
      const auto at = static_cast<std::size_t>(n);
      v[at] = elementwise(row_of(s.row("value_share", 0), n, s.V), s.value(t * N + n));
      k[at] = turned(plus(s.key(t * N + n), 1, row_of(s.row("k_bias", 0), n, s.K)), angle);
      h = plus_outer(h, mix * step, v[at], k[at]);
    }
    for (int n = 0; n < N; ++n) {
      const Vector q = turned(plus(s.query(t * N + n), 1, row_of(s.row("q_bias", 0), n, s.K)), angle);
      const Vector own = scaled(s.has("skip") ? s.number("skip") : 0, v[static_cast<std::size_t>(n)]);
      o.back() =
          plus(o.back(), 1, elementwise(row_of(s.row("read_share", 0), n, s.V), plus(times(h, q), 1, own)));
    }
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(mamba3_mimo, mamba3_mimo);

Sequence ordinary(int writes, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 6, 5, 3, seed, writes);
  s.q = normal_rows(6 * writes, 5, seed + 20);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, seed + 1), s.in["step"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["mix"] = uniform_rows(6, 1, 0, 1, seed + 3), s.in["angle"] = normal_rows(6, 4, seed + 4);
  s.in["k_bias"] = normal_rows(1, 5 * writes, seed + 5),
  s.in["q_bias"] = normal_rows(1, 5 * writes, seed + 6);
  s.in["value_share"] = s.in["read_share"] = constant_rows(1, 3 * writes, 1);
  return s;
}

TEST(Mamba3MimoOracle, OfOneIsMamba3) {
  const Sequence s = ordinary(1, 2);
  expect_close(read("mamba3_mimo", s), read("mamba3", s));
}

// The state is one: a query reads what every key has written, and what all of them read is added up.
TEST(Mamba3MimoOracle, EveryQueryReadsEveryWrite) {
  Sequence s = ordinary(2, 3), one = ordinary(1, 3);
  for (const char* bias : {"k_bias", "q_bias"}) s.in[bias] = zeros(1, 10), one.in[bias] = zeros(1, 5);
  Matrix sum = zeros(6, 3);
  for (const int write : {0, 1})
    for (const int query : {0, 1}) {
      for (std::size_t t = 0; t < 6; ++t) {
        const auto at = [&](const Matrix& rows, int n) { return rows[2 * t + static_cast<std::size_t>(n)]; };
        one.k[t] = at(s.k, write), one.v[t] = at(s.v, write), one.q[t] = at(s.q, query);
      }
      const Matrix o = read("mamba3", one);
      for (std::size_t t = 0; t < 6; ++t) sum[t] = plus(sum[t], 1, o[t]);
    }
  expect_close(read("mamba3_mimo", s), sum);
}

}  // namespace crosstalk::checks::mamba3_mimo_test
