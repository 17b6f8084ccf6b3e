// Log-linear attention (Guo et al. 2025, arXiv 2506.04761): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::log_linear_attention_test {

CROSSTALK_HALF_LIFE(log_linear_attention, 49.22);
CROSSTALK_START(log_linear_attention, write, "one", 9.016, 0);

// Token 13 = 8 + 4 + 1: itself, then tokens 12, 8 to 11, and 0 to 7.
TEST(LogLinearAttentionOracle, LevelsAreTheDigitsOfATokensNumber) {
  Sequence s = random_sequence(no_options(), 14, 1, 1, 3);
  s.k = s.q = constant_rows(14, 1, 1), s.in["log_decay"] = constant_rows(14, 1, 0);
  for (int t = 0; t < 14; ++t) s.v[static_cast<std::size_t>(t)] = {std::exp2(t)};
  const auto held = [&](int level) {
    s.in["level_gate"] = Matrix(14, unit(16, level));
    return read("log_linear_attention", s)[13][0];
  };
  EXPECT_EQ(held(0), 8192);
  EXPECT_EQ(held(1), 4096);
  EXPECT_EQ(held(2), 0);
  EXPECT_EQ(held(3), 256 + 512 + 1024 + 2048);
  EXPECT_EQ(held(4), 255);
}

}  // namespace crosstalk::checks::log_linear_attention_test
