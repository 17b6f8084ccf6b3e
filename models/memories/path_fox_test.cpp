// PaTH-FoX (Yang et al. 2025, arXiv 2505.16381): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::path_fox_test {

CROSSTALK_HALF_LIFE(path_fox, 1.033);
CROSSTALK_START(path_fox, gate_scale, "key", 4, 0);

Sequence random_path(std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 7, 4, 3, seed);
  s.in["path_key"] = unit_rows(normal_rows(7, 4, seed + 50));
  s.in["beta"] = uniform_rows(7, 1, 0, 2, seed + 51);
  s.in["log_decay"] = uniform_rows(7, 1, -2, 0, seed + 52);
  return s;
}

TEST(PathFoxOracle, OpenGatesArePath) {
  Sequence s = random_path(1);
  s.in["log_decay"] = constant_rows(7, 1, 0);
  expect_close(read("path_fox", s), read("path", s));
}

}  // namespace crosstalk::checks::path_fox_test
