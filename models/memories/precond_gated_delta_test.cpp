// Preconditioned Gated DeltaNet (arXiv 2604.21100): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/gate_starts.h"
#include "models/testing/preconditioned.h"

namespace crosstalk::checks::precond_gated_delta_test {
namespace {

// P = alpha_t S_{t-1}, S_t = P + beta_t (v_t - P k_t) (M_t * k_t)^T
Matrix precond_gated_delta(const Sequence& s) {
  return preconditioned(
      s, [&](int t, const Matrix& state) { return times(std::exp(s.number("log_decay", t)), state); });
}
CROSSTALK_MEMORY_ORACLE(precond_gated_delta, precond_gated_delta);
CROSSTALK_GATE_LAW(precond_gated_delta, log_decay, mamba_law(x));
CROSSTALK_GATE_LAW(precond_gated_delta, beta, x.option("beta_max") * sigmoid(x("beta")));
CROSSTALK_GATE_LAW(precond_gated_delta, log_decay_a, -std::exp(x("A_log_a")) * softplus(x("decay_a")));
CROSSTALK_GATE_LAW(precond_gated_delta, beta_a, sigmoid(x("beta_a")));
CROSSTALK_GATE_LAW(precond_gated_delta, center, x("center"));
CROSSTALK_HALF_LIFE(precond_gated_delta, 12.32);
CROSSTALK_START(precond_gated_delta, rate_from, "0", 11.18, 0);
CROSSTALK_INPUT_START(precond_gated_delta, log_decay_a, 8.92);

TEST(PrecondGatedDeltaOracle, WithoutSquashIsGatedDelta) {
  expect_plain_without_squash("precond_gated_delta", "gated_delta", 1);
}
TEST(PrecondGatedDeltaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  expect_less_written_where_much_was("precond_gated_delta", 1);
}

}  // namespace
}  // namespace crosstalk::checks::precond_gated_delta_test
