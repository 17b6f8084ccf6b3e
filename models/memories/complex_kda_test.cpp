// KDA with signed gates (Complex KDA; Grazzi et al. 2024, arXiv 2411.12537): laws, and how decays start.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::complex_kda_test {

CROSSTALK_HALF_LIFE(complex_kda, 68.58);
CROSSTALK_START(complex_kda, gate, "sigmoid", 67.88, 0);
CROSSTALK_START(complex_kda, gate, "signed_exp", 4.494, 0.068);

TEST(ComplexKdaGates, StartWithTheSignsAndHalfLivesOfTheirSource) {
  const auto start = [](const char* gate) {
    return decay_start(input_at_start("complex_kda", "signed_decay", {{"memory.gate", std::string(gate)}}),
                       false);
  };
  const DecayStart either = start("signed_sigmoid2"), positive = start("sigmoid"), old = start("signed_exp");
  EXPECT_NEAR(either.negative, 0.5, 0.02);
  EXPECT_NEAR(either.median(), 69, 4);
  EXPECT_EQ(positive.negative, 0);
  EXPECT_NEAR(positive.median(), 69, 4);
  EXPECT_NEAR(old.negative, 0.063, 0.02);
  EXPECT_NEAR(old.median(), 4.7, 1);
}

// One channel that tokens flip or leave alone: what is read is the parity of the flips.
TEST(ComplexKdaOracle, AChannelKeepsAParity) {
  Sequence s = random_sequence(no_options(), 6, 1, 1, 4);
  s.k = s.q = s.v = constant_rows(6, 1, 1);
  s.in["beta"] = constant_rows(6, 1, 0), s.in["beta"][0] = {1};
  s.in["signed_decay"] = {{1}, {-1}, {1}, {-1}, {-1}, {1}};
  expect_close(read("complex_kda", s), Matrix{{1}, {-1}, {-1}, {1}, {-1}, {-1}});
}

}  // namespace crosstalk::checks::complex_kda_test
