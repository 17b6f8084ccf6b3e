// Mamba-2's state space duality (Dao, Gu 2024, arXiv 2405.21060): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::mamba2_test {
namespace {

// S_t = alpha_t S_{t-1} + step_t v_t k_t^T
Matrix mamba2(const Sequence& s) {
  Matrix state = start(s), o;
  for (int t = 0; t < s.T; ++t) {
    const double alpha = std::exp(s.number("log_decay", t));
    state = plus_outer(times(alpha, state), s.number("step", t), s.value(t), s.key(t));
    o.push_back(times(state, s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(mamba2, mamba2);
CROSSTALK_GATE_LAW(mamba2, step, softplus(x("step")));
CROSSTALK_GATE_LAW(mamba2, log_decay, -std::exp(x("A_log")) * softplus(x("step")));
CROSSTALK_HALF_LIFE(mamba2, 9.202);

TEST(Mamba2Oracle, ConstantDecayAndStepOneIsRetnet) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = constant_rows(6, 1, -0.4), s.in["step"] = constant_rows(6, 1, 1);
  const Matrix o = read("mamba2", s);
  s.in["log_decay"] = {{-0.4}};
  expect_close(o, read("retnet", s));
}

TEST(Mamba2Oracle, TheStepScalesTheWriteAndAShutGateForgets) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 2);
  s.in["log_decay"] = {{0}, {-1000}}, s.in["step"] = {{0.3}, {2}};
  expect_close(read("mamba2", s),
               Matrix{scaled(0.3 * dot(s.k[0], s.q[0]), s.v[0]), scaled(2 * dot(s.k[1], s.q[1]), s.v[1])});
}

}  // namespace
}  // namespace crosstalk::checks::mamba2_test
