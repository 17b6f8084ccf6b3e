// Mixture of memories (Du et al. 2025, arXiv 2502.13685): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mom_test {

CROSSTALK_HALF_LIFE(mom, 12.32);
CROSSTALK_START(mom, rate_from, "0", 11.18, 0);

Sequence ordinary(const Options& options, std::uint64_t seed) {
  Sequence s = random_sequence(options, 6, 4, 3, seed);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, seed + 1), s.in["beta"] = uniform_rows(6, 1, 0, 1, seed + 2);
  return s;
}

// The content of one memory neither fades nor changes while tokens go elsewhere.
TEST(MomOracle, TokensThatGoElsewhereLeaveNoTrace) {
  const Options two = option("memories", 2, option("selected", 1));
  Sequence s = ordinary(two, 2);
  s.in["beta"] = constant_rows(6, 1, 1);
  s.in["router"] = {{1, 0}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {1, 0}};
  s.in["log_decay"][5] = {0}, s.in["beta"][5] = {0}, s.q[5] = s.k[0];
  expect_close(read("mom", s)[5], s.v[0]);
}

}  // namespace crosstalk::checks::mom_test
