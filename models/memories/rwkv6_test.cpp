// RWKV-6, Finch (Peng et al. 2024, arXiv 2404.05892): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rwkv6_test {

CROSSTALK_HALF_LIFE(rwkv6, 24.5);
CROSSTALK_START(rwkv6, start, "ramps", 13.33, 0);

TEST(Rwkv6Oracle, WithoutBonusATokenDoesNotSeeItself) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.in["bonus"] = constant_rows(1, 4, 0), s.in["log_decay"] = constant_rows(4, 4, -1);
  const Matrix o = read("rwkv6", s);
  expect_close(o[0], Vector(3, 0));
  expect_close(o[1], scaled(dot(s.k[0], s.q[1]), s.v[0]));  // a decay after the read: none so far
  s.k[3] = Vector(4, 9), s.v[3] = Vector(3, 9), s.in["log_decay"][3] = Vector(4, -9);
  expect_close(read("rwkv6", s)[3], o[3]);
}

}  // namespace crosstalk::checks::rwkv6_test
