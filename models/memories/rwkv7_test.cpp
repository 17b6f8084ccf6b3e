// RWKV-7, Goose (Peng et al. 2025, arXiv 2503.14456): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rwkv7_test {

CROSSTALK_HALF_LIFE(rwkv7, 15.07);
CROSSTALK_START(rwkv7, start, "constants", 2.286, 0);

TEST(Rwkv7Oracle, RateZeroIsGla) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 2);
  s.in["erase_key"] = unit_rows(normal_rows(6, 4, 3)), s.in["in_context_rate"] = constant_rows(6, 4, 0);
  expect_close(read("rwkv7", s), read("gla", s));
}

}  // namespace crosstalk::checks::rwkv7_test
