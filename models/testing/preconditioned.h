// What the tests of both preconditioned delta rules share (arXiv 2604.21100): the oracle and what it says.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/testing/random_sequence.h"

namespace crosstalk::checks {

// A_t = e^{g} A_{t-1} + b k^2 (by channel), M_t = x^(-r / (1 + |r|)), r = ln(A_t + 1e-6) - c
// P = faded(t, S_{t-1}), S_t = P + beta_t (v_t - P k_t) (M_t * k_t)^T
template <class Fade>
Matrix preconditioned(const Sequence& s, const Fade& fade) {
  Matrix state = start(s), o;
  Vector a = s.has("a0") ? s.input("a0").front() : Vector(static_cast<std::size_t>(s.K), 0);
  const double squash = s.real("squash", 1.5), center = s.number("center");
  for (int t = 0; t < s.T; ++t) {
    Vector write = s.key(t);
    for (std::size_t c = 0; c < a.size(); ++c) {
      a[c] = std::exp(s.number("log_decay_a", t)) * a[c] + s.number("beta_a", t) * s.key(t)[c] * s.key(t)[c];
      const double r = std::log(a[c] + 1e-6) - center;
      write[c] *= std::pow(squash, -r / (1 + std::abs(r)));
    }
    const Matrix faded = fade(t, state);
    state = plus_outer(faded, s.number("beta", t), minus(s.value(t), times(faded, s.key(t))), write);
    o.push_back(times(state, s.query(t)));
  }
  return o;
}

/// Six tokens with so many decays each.
inline Sequence preconditioned_sequence(const Options& options, int decays, std::uint64_t seed) {
  Sequence s = random_sequence(options, 6, 4, 3, seed);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, decays, -1, 0, seed + 1);
  s.in["beta"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["log_decay_a"] = uniform_rows(6, 1, -1, 0, seed + 3);
  s.in["beta_a"] = uniform_rows(6, 1, 0, 1, seed + 4);
  s.in["center"] = {{-0.2}};
  return s;
}

inline void expect_plain_without_squash(const char* memory, const char* plain, int decays) {
  const Options none = option("squash", 1.0);
  const Sequence s = preconditioned_sequence(none, decays, 1);
  expect_close(read(memory, s), read(plain, s));
}

inline void expect_less_written_where_much_was(const char* memory, int decays) {
  const Options none;
  Sequence s = preconditioned_sequence(none, decays, 2);
  s.k = Matrix(6, unit(4, 0)), s.q = s.k, s.v = constant_rows(6, 3, 1);
  s.in["log_decay"] = constant_rows(6, decays, 0), s.in["log_decay_a"] = constant_rows(6, 1, 0);
  s.in["beta"] = s.in["beta_a"] = constant_rows(6, 1, 1);
  const Matrix o = read(memory, s);
  const auto written = [](double a) {
    const double r = std::log(a + 1e-6) + 0.2;
    return std::pow(1.5, -r / (1 + r));
  };
  const double first = written(1), second = first + (1 - first) * written(2);
  EXPECT_NEAR(o[0][0], first, 1e-12);
  EXPECT_NEAR(o[1][0], second, 1e-12);
  EXPECT_LT(written(2), written(1));
}

}  // namespace crosstalk::checks
