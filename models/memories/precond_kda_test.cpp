// Preconditioned KDA (arXiv 2604.21100): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"
#include "models/testing/preconditioned.h"

namespace crosstalk::checks::precond_kda_test {

CROSSTALK_HALF_LIFE(precond_kda, 0.14055);
CROSSTALK_START(precond_kda, start, "steps", 9.347, 0);
CROSSTALK_INPUT_START(precond_kda, log_decay_a, 8.92);

TEST(PrecondKdaOracle, WithoutSquashIsKda) { expect_plain_without_squash("precond_kda", "kda", 4); }
TEST(PrecondKdaOracle, AChannelThatWasWrittenMuchIsWrittenLess) {
  expect_less_written_where_much_was("precond_kda", 4);
}

}  // namespace crosstalk::checks::precond_kda_test
