// Mamba (Gu and Dao 2023, arXiv 2312.00752): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::mamba1_test {
namespace {

// y_v = sum over n and j of C_n exp(A_vn (step of v at tokens behind j)) step_vj B_jn x_jv, A =
// -e^{log_rate}: the convolution of a system whose step changes, without its state; that of a start is e^{A
// all steps} s0
Matrix mamba1(const Sequence& s) {
  Matrix y = zeros(s.T, s.V);
  const auto V = static_cast<std::size_t>(s.V), K = static_cast<std::size_t>(s.K);
  for (int t = 0; t < s.T; ++t) {
    for (std::size_t v = 0; v < V; ++v) {
      for (std::size_t n = 0; n < K; ++n) {
        const double A = -std::exp(s.row("log_rate", 0)[v * K + n]);
        double behind = 0, sum = 0;
        for (int j = t; j >= 0; --j) {
          const double step = s.row("step", j)[v];
          sum += std::exp(A * behind) * step * s.key(j)[n] * s.value(j)[v];
          behind += step;
        }
        sum += std::exp(A * behind) * start(s)[v][n];
        y[static_cast<std::size_t>(t)][v] += s.query(t)[n] * sum;
      }
    }
  }
  return y;
}
CROSSTALK_MEMORY_ORACLE(mamba1, mamba1);
CROSSTALK_GATE_LAW(mamba1, step, softplus(x("step")));
CROSSTALK_GATE_LAW(mamba1, log_rate, x("log_rate"));

TEST(Mamba1Oracle, WithOneRateAndOneStepIsMamba2) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  const Matrix steps = uniform_rows(6, 1, 0.1, 1, 2);
  s.in["log_rate"] = constant_rows(1, 12, std::log(0.7));
  for (int t = 0; t < 6; ++t) {
    const double step = steps[static_cast<std::size_t>(t)][0];
    s.in["step"].push_back(Vector(3, step));
    s.in["log_decay"].push_back({-0.7 * step});
  }
  const Matrix o = read("mamba1", s);
  s.in["step"] = steps;
  expect_close(o, read("mamba2", s));
}

TEST(Mamba1Oracle, AStepOfZeroNeitherWritesNorFades) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 3);
  s.in["log_rate"] = normal_rows(1, 12, 4), s.in["step"] = {{0.3, 1, 0.2}, {0, 0, 0}};
  s.q[1] = s.q[0];
  const Matrix o = read("mamba1", s);
  expect_close(o[1], o[0]);
}

}  // namespace
}  // namespace crosstalk::checks::mamba1_test
