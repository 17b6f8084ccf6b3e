// Fast weights (Ba et al. 2016, arXiv 1610.06258): their laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::fast_weights_test {

CROSSTALK_HALF_LIFE(fast_weights, 13.51);

TEST(FastWeightsOracle, WithoutInnerStepsAreRetention) {
  const Options plain = option("inner_steps", 0, option("rate", 1.0));
  Sequence s = random_sequence(plain, 6, 4, 3, 1);
  s.in["log_decay"] = {{std::log(0.95)}};
  expect_close(read("fast_weights", s), read("retnet", s));
}

// The inner loop completes: a query that shares one channel with a stored key comes to lie along it.
TEST(FastWeightsOracle, TheInnerLoopMovesAQueryTowardsAStoredKey) {
  const Options one = option("inner_steps", 1), many = option("inner_steps", 9);
  Sequence s = random_sequence(one, 2, 6, 1, 2);
  s.k = {{2, 2, 2, 0, 0, 0}, {0, 0, 0, 2, 2, 2}}, s.v = {{1}, {-1}};
  s.q = {{0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1}};
  const double once = read("fast_weights", s)[1][0],
               settled = read("fast_weights", with_options(s, many))[1][0];
  EXPECT_LT(once, 0);
  EXPECT_LE(settled, once + 1e-9);
}

}  // namespace crosstalk::checks::fast_weights_test
