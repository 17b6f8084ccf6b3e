// HGRN2 (Qin et al. 2024, arXiv 2404.07904): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::hgrn2_test {

CROSSTALK_HALF_LIFE(hgrn2, 1.002);
CROSSTALK_START(hgrn2, lower_bound, "0.4", 1.943, 0);

TEST(Hgrn2Oracle, EveryChannelIsAnAverageOfValues) {
  Sequence s = random_sequence(no_options(), 3, 2, 1, 3);
  s.v = constant_rows(3, 1, 4), s.q = Matrix(3, unit(2, 0));
  s.in["log_decay"] = {{-900, 0}, {std::log(0.2), -1}, {std::log(0.9), -3}};
  expect_close(read("hgrn2", s), constant_rows(3, 1, 4));
}

}  // namespace crosstalk::checks::hgrn2_test
