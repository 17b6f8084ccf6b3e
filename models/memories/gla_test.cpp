// Gated linear attention (Yang et al. 2024, arXiv 2312.06635): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gla_test {

CROSSTALK_HALF_LIFE(gla, 15.99);

TEST(GlaOracle, ChannelsFadeOnTheirOwn) {
  Sequence s = random_sequence(no_options(), 2, 2, 3, 3);
  s.k = {Vector{1, 1}, Vector{0, 0}}, s.q = {Vector{1, 1}, Vector{2, 5}};
  s.in["log_decay"] = {{0, 0}, {std::log(0.5), std::log(0.1)}};
  expect_close(read("gla", s)[1], scaled(1.5, s.v[0]));
}

}  // namespace crosstalk::checks::gla_test
