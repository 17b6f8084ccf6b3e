// Comba (Hu et al. 2025, arXiv 2506.02475): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::comba_test {

CROSSTALK_HALF_LIFE(comba, 12.32);
CROSSTALK_START(comba, rate_from, "0", 11.18, 0);

TEST(CombaOracle, TheCorrectionMovesTheQuery) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 4);
  s.in["log_decay"] = uniform_rows(5, 1, -1, 0, 5), s.in["beta"] = constant_rows(5, 1, 0.5);
  s.in["erase_key"] = normal_rows(5, 4, 6), s.in["correction"] = {{0.3}};
  const Matrix o = read("comba", s);
  for (std::size_t t = 0; t < 5; ++t) s.q[t] = plus(s.q[t], -0.3, s.in["erase_key"][t]);
  s.in.erase("correction");
  expect_close(read("comba", s), o);
}

}  // namespace crosstalk::checks::comba_test
