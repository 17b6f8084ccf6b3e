// Log-linear Gated DeltaNet (Guo et al. 2025, arXiv 2506.04761): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::log_linear_gated_delta_test {

CROSSTALK_HALF_LIFE(log_linear_gated_delta, 12.32);
CROSSTALK_START(log_linear_gated_delta, rate_from, "0", 11.18, 0);

TEST(LogLinearGatedDeltaOracle, EqualGatesAreGatedDelta) {
  Sequence s = random_sequence(no_options(), 21, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(21, 1, -1, 0, 2), s.in["beta"] = uniform_rows(21, 1, 0, 1, 3);
  s.in["level_gate"] = constant_rows(21, 16, 1);
  expect_close(read("log_linear_gated_delta", s), read("gated_delta", s));
}

}  // namespace crosstalk::checks::log_linear_gated_delta_test
