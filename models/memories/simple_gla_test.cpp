// Simple GLA (Yang et al. 2024, arXiv 2312.06635): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::simple_gla_test {

CROSSTALK_HALF_LIFE(simple_gla, 15.94);

TEST(SimpleGlaOracle, AWriteKeepsItsOwnValueWhole) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 3);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = s.k;
  s.in["log_decay"] = {{-1000}, {std::log(0.3)}};
  expect_close(read("simple_gla", s), s.v);
  s.q[1] = s.k[0];
  expect_close(read("simple_gla", s)[1], scaled(0.3, s.v[0]));
}

}  // namespace crosstalk::checks::simple_gla_test
