// Preconditioned KDA (arXiv 2604.21100): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/gate_starts.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::precond_kda_test {
namespace {

// A_t = e^{g} A_{t-1} + b k^2 (by channel), M_t = x^(-r / (1 + |r|)), r = ln(A_t + 1e-6) - c
// P = S_{t-1} Diag(alpha_t), S_t = P + beta_t (v_t - P k_t) (M_t * k_t)^T
Matrix precond_kda(const Sequence& s) {
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
    const Matrix faded = times_diagonal(state, exponential(s.row("log_decay", t)));
    state = plus_outer(faded, s.number("beta", t), minus(s.value(t), times(faded, s.key(t))), write);
    o.push_back(times(state, s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(precond_kda, precond_kda);
CROSSTALK_GATE_LAW(precond_kda, log_decay, mamba_law(x));
CROSSTALK_GATE_LAW(precond_kda, beta, x.option("beta_max") * sigmoid(x("beta")));
CROSSTALK_GATE_LAW(precond_kda, log_decay_a, -std::exp(x("A_log_a")) * softplus(x("decay_a")));
CROSSTALK_GATE_LAW(precond_kda, beta_a, sigmoid(x("beta_a")));
CROSSTALK_GATE_LAW(precond_kda, center, x("center"));
CROSSTALK_HALF_LIFE(precond_kda, 0.14055);
CROSSTALK_START(precond_kda, start, "steps", 9.347, 0);
CROSSTALK_INPUT_START(precond_kda, log_decay_a, 8.92);

Sequence ordinary(const Options& options, std::uint64_t seed) {
  Sequence s = random_sequence(options, 6, 4, 3, seed);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, seed + 1), s.in["beta"] = uniform_rows(6, 1, 0, 1, seed + 2);
  s.in["log_decay_a"] = uniform_rows(6, 1, -1, 0, seed + 3),
  s.in["beta_a"] = uniform_rows(6, 1, 0, 1, seed + 4);
  s.in["center"] = {{-0.2}};
  return s;
}

TEST(PrecondKdaOracle, WithoutSquashIsKda) {
  const Options none = option("squash", 1.0);
  const Sequence s = ordinary(none, 1);
  expect_close(read("precond_kda", s), read("kda", s));
}

TEST(PrecondKdaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  const Options none;
  Sequence s = ordinary(none, 2);
  s.k = Matrix(6, unit(4, 0)), s.q = s.k, s.v = constant_rows(6, 3, 1);
  s.in["log_decay"] = constant_rows(6, 4, 0), s.in["log_decay_a"] = constant_rows(6, 1, 0);
  s.in["beta"] = s.in["beta_a"] = constant_rows(6, 1, 1);
  const Matrix o = read("precond_kda", s);
  const auto written = [](double a) {
    const double r = std::log(a + 1e-6) + 0.2;
    return std::pow(1.5, -r / (1 + r));
  };
  const double first = written(1), second = first + (1 - first) * written(2);
  EXPECT_NEAR(o[0][0], first, 1e-12);
  EXPECT_NEAR(o[1][0], second, 1e-12);
  EXPECT_LT(written(2), written(1));
}

}  // namespace
}  // namespace crosstalk::checks::precond_kda_test
