// Mamba-3 (2026, arXiv 2603.15569): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "models/testing/memory_test.h"

namespace crosstalk::checks::mamba3_test {
namespace {

// Pairs of channels as complex numbers.
Vector turned(Vector x, const Vector& by) {
  for (std::size_t c = 0; c < by.size() && 2 * c + 1 < x.size(); ++c) {
    const auto z = std::complex<double>(x[2 * c], x[2 * c + 1]) * std::polar(1.0, by[c]);
    x[2 * c] = z.real(), x[2 * c + 1] = z.imag();
  }
  return x;
}

Vector begun(const Sequence& s, const char* name, std::size_t n) {
  return s.has(name) ? s.input(name).front() : Vector(n, 0);
}

// Token after token, with the last token's key and value beside the state.
Matrix mamba3(const Sequence& s) {
  Matrix state = start(s), o;
  Vector at = begun(s, "angle0", s.row("angle", 0).size());
  Vector last_k = begun(s, "k0", static_cast<std::size_t>(s.K)),
         last_v = begun(s, "v0", static_cast<std::size_t>(s.V));
  for (int t = 0; t < s.T; ++t) {
    const double alpha = std::exp(s.number("log_decay", t)), step = s.number("step", t),
                 mix = s.number("mix", t);
    at = plus(at, 1, s.row("angle", t));
    const Vector k = turned(plus(s.key(t), 1, s.row("k_bias", t)), at);
    state = plus_outer(times(alpha, state), (1 - mix) * step * alpha, last_v, last_k);
    state = plus_outer(state, mix * step, s.value(t), k);
    o.push_back(times(state, turned(plus(s.query(t), 1, s.row("q_bias", t)), at)));
    last_k = k, last_v = s.value(t);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(mamba3, mamba3);
CROSSTALK_GATE_LAW(mamba3, step, softplus(x("step")));
CROSSTALK_GATE_LAW(mamba3, log_decay,
                   -softplus(x("step")) * (x.text("rate") == "softplus" ? softplus(x("rate"))
                                           : x("rate") > 0              ? 1 + x("rate")
                                                                        : 1 / (1 - x("rate"))));
CROSSTALK_GATE_LAW(mamba3, mix, sigmoid(x("mix")));
CROSSTALK_GATE_LAW(mamba3, angle, softplus(x("step")) * std::acos(-1.0) * std::tanh(x("angle")));
CROSSTALK_HALF_LIFE(mamba3, 49.003);
CROSSTALK_START(mamba3, rate, "softplus", 93.4, 0);

Sequence plain(std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, seed);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, seed + 1), s.in["step"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["mix"] = constant_rows(6, 1, 1), s.in["angle"] = zeros(6, 4);
  s.in["k_bias"] = zeros(1, 4), s.in["q_bias"] = zeros(1, 4);
  return s;
}

TEST(Mamba3Oracle, WithoutTurnsAndTheLastTokenItIsMamba2) {
  const Sequence s = plain(1);
  expect_close(read("mamba3", s), read("mamba2", s));
}

// A half turn a token changes the sign of what was held: parity.
TEST(Mamba3Oracle, AHalfTurnFlipsTheSign) {
  Sequence s = plain(2);
  s.in["log_decay"] = zeros(6, 1), s.in["step"] = zeros(6, 1), s.in["step"][0] = {1};
  s.k = s.q = Matrix(6, unit(4, 0)), s.v[0] = {1, 2, 3};
  for (const int t : {2, 3, 5}) s.in["angle"][static_cast<std::size_t>(t)][0] = std::acos(-1.0);
  const Matrix o = read("mamba3", s);
  const int signs[] = {1, 1, -1, 1, 1, -1};
  for (std::size_t t = 0; t < 6; ++t) expect_close(o[t], scaled(signs[t], s.v[0]));
}

TEST(Mamba3Oracle, AverageWritesSplitATokenOverTwo) {
  Sequence s = plain(3);
  s.in["log_decay"] = zeros(6, 1), s.in["step"] = constant_rows(6, 1, 1),
  s.in["mix"] = constant_rows(6, 1, 0.5);
  s.k = s.q = Matrix(6, unit(4, 1));
  const Matrix o = read("mamba3", s);
  expect_close(o[0], scaled(0.5, s.v[0]));
  expect_close(o[1], plus(s.v[0], 0.5, s.v[1]));
}

}  // namespace
}  // namespace crosstalk::checks::mamba3_test
