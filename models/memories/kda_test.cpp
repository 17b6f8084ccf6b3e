// Kimi delta attention (Kimi Linear, 2025, arXiv 2510.26692): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::kda_test {

CROSSTALK_HALF_LIFE(kda, 11.85);
CROSSTALK_START(kda, gate, "bounded", 13.64, 0);
CROSSTALK_START(kda, rate, "one", 67.88, 0);

// Start values of the authors' gates (published: a median half-life of 14.0 tokens where the gate is bounded).
TEST(KdaGates, StartWithTheHalfLivesOfTheirSource) {
  const auto start = [](const char* gate, const char* rate) {
    return decay_start(
        input_at_start("kda", "log_decay",
                       {{"memory.gate", std::string(gate)}, {"memory.rate", std::string(rate)}}),
        true);
  };
  EXPECT_NEAR(start("softplus", "").median(), 9.8, 1);
  const DecayStart bounded = start("bounded", "");
  EXPECT_NEAR(bounded.median(), 14, 1);
  EXPECT_LT(bounded.quantile(0.9), std::log(2.0) / 0.005);  // sigmoid above 1e-3 in nine of ten
  EXPECT_GT(start("bounded", "drawn").median(), 1e9);       // up to semantics 3: all but without decay
}

TEST(KdaOracle, UnitKeyAndBetaOneOverwriteExactlyAtAnyDecay) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 4);
  s.k = unit_rows(s.k), s.q = s.k;
  s.in["log_decay"] = uniform_rows(6, 4, -3, 0, 5), s.in["beta"] = constant_rows(6, 1, 1);
  expect_close(read("kda", s), s.v);
}

}  // namespace crosstalk::checks::kda_test
