// DeltaNet (Yang et al. 2024, arXiv 2406.06484): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::deltanet_test {

TEST(DeltanetOracle, IsTheDeltaRuleOf2021) {
  Sequence s = random_sequence(no_options(), 9, 4, 3, 3);
  s.in["beta"] = uniform_rows(9, 1, 0, 1, 4);
  expect_close(read("deltanet", s), read("delta", s));
}

}  // namespace crosstalk::checks::deltanet_test
