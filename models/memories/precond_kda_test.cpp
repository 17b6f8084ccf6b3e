// Preconditioned KDA (arXiv 2604.21100): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/gate_starts.h"
#include "models/testing/preconditioned.h"

namespace crosstalk::checks::precond_kda_test {
namespace {

// P = S_{t-1} Diag(alpha_t), S_t = P + beta_t (v_t - P k_t) (M_t * k_t)^T
Matrix precond_kda(const Sequence& s) {
  return preconditioned(s, [&](int t, const Matrix& state) {
    return times_diagonal(state, exponential(s.row("log_decay", t)));
  });
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

TEST(PrecondKdaOracle, WithoutSquashIsKda) { expect_plain_without_squash("precond_kda", "kda", 4); }
TEST(PrecondKdaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  expect_less_written_where_much_was("precond_kda", 4);
}

}  // namespace
}  // namespace crosstalk::checks::precond_kda_test
