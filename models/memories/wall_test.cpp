// Wall attention (fla/layers/wall_attn.py): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::wall_test {

CROSSTALK_HALF_LIFE(wall, 2074.55);

// A faded token is not forgotten, as in FoX: its logit goes to 0, that of any key orthogonal to the query.
TEST(WallOracle, ShutGatesReadTheAverageOfWhatCameBefore) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 2);
  s.in["log_decay"] = constant_rows(5, 4, 0);
  s.in["log_decay"][4] = Vector(4, -800);
  s.k[4] = Vector(4, 0);
  Vector mean(3, 0);
  for (const Vector& v : s.v) mean = plus(mean, 0.2, v);
  expect_close(read("wall", s)[4], mean);
}

}  // namespace crosstalk::checks::wall_test
