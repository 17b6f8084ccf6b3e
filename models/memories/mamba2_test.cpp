// Mamba-2's state space duality (Dao, Gu 2024, arXiv 2405.21060): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mamba2_test {

CROSSTALK_HALF_LIFE(mamba2, 9.202);

TEST(Mamba2Oracle, TheStepScalesTheWriteAndAShutGateForgets) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 2);
  s.in["log_decay"] = {{0}, {-1000}}, s.in["step"] = {{0.3}, {2}};
  expect_close(read("mamba2", s),
               Matrix{scaled(0.3 * dot(s.k[0], s.q[0]), s.v[0]), scaled(2 * dot(s.k[1], s.q[1]), s.v[1])});
}

}  // namespace crosstalk::checks::mamba2_test
