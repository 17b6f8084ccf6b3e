// S4D (Gu, Gupta, Goel, Re 2022, arXiv 2206.11893): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include <complex>

#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::s4d_test {
namespace {

using Number = std::complex<double>;

// y_v = sum over j of (kernel of v at t - j)(q_t * k_j) v_j, the kernel 2 Re(C_n e^{l step A_n}) step: a
// convolution
Matrix s4d(const Sequence& s) {
  Matrix y = zeros(s.T, s.V);
  const auto V = static_cast<std::size_t>(s.V), K = static_cast<std::size_t>(s.K);
  for (int t = 0; t < s.T; ++t) {
    for (std::size_t v = 0; v < V; ++v) {
      const double step = s.row("step", 0)[v];
      for (std::size_t n = 0; n < K; ++n) {
        const std::size_t i = v * K + n;
        const Number A(-std::exp(s.row("log_rate", 0)[i]), s.row("angle", 0)[i]),
            C(s.row("read", 0)[i], s.row("read_imag", 0)[i]);
        for (int j = 0; j <= t; ++j) {
          const double kernel = 2 * (C * std::exp(A * (step * (t - j)))).real() * step;
          y[static_cast<std::size_t>(t)][v] += kernel * s.query(t)[n] * s.key(j)[n] * s.value(j)[v];
        }
      }
    }
  }
  return y;
}
CROSSTALK_MEMORY_ORACLE(s4d, s4d);
CROSSTALK_GATE_LAW(s4d, step, std::exp(x("log_step")));

Sequence sequence(int T, int K, int V, std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), T, K, V, seed);
  s.in["step"] = uniform_rows(1, V, 0.1, 1, seed + 1);
  s.in["log_rate"] = uniform_rows(1, V * K, -1, 0.5, seed + 2);
  s.in["angle"] = s.in["read_imag"] = constant_rows(1, V * K, 0);
  s.in["read"] = constant_rows(1, V * K, 0.5);
  return s;
}

TEST(S4dOracle, WithoutAnglesIsMambaWithAConstantStep) {
  Sequence s = sequence(6, 4, 3, 1);
  const Matrix o = read("s4d", s);
  s.in["step"] = Matrix(6, s.in["step"][0]);
  expect_close(o, read("mamba1", s));
}

// One channel of one number, nothing fades, a quarter turn a token: what was written comes back after four
// tokens.
TEST(S4dOracle, TurnsWithoutFading) {
  Sequence s = sequence(5, 1, 1, 2);
  s.k = s.q = constant_rows(5, 1, 1), s.v = {{3}, {0}, {0}, {0}, {0}};
  s.in["step"] = {{1}}, s.in["log_rate"] = {{-1000}}, s.in["angle"] = {{std::acos(0.0)}};
  expect_close(read("s4d", s), Matrix{{3}, {0}, {-3}, {0}, {3}});
}

}  // namespace
}  // namespace crosstalk::checks::s4d_test
