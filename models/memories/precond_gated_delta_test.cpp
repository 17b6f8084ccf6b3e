// Preconditioned Gated DeltaNet (arXiv 2604.21100): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"
#include "models/testing/preconditioned.h"

namespace crosstalk::checks::precond_gated_delta_test {

CROSSTALK_HALF_LIFE(precond_gated_delta, 12.32);
CROSSTALK_START(precond_gated_delta, rate_from, "0", 11.18, 0);
CROSSTALK_INPUT_START(precond_gated_delta, log_decay_a, 8.92);

TEST(PrecondGatedDeltaOracle, WithoutSquashIsGatedDelta) {
  expect_plain_without_squash("precond_gated_delta", "gated_delta", 1);
}
TEST(PrecondGatedDeltaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  expect_less_written_where_much_was("precond_gated_delta", 1);
}

}  // namespace crosstalk::checks::precond_gated_delta_test
