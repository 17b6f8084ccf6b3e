// Gated DeltaNet (Yang et al. 2025, arXiv 2412.06464): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gated_delta_test {

CROSSTALK_HALF_LIFE(gated_delta, 12.32);
CROSSTALK_START(gated_delta, rate_from, "0", 11.18, 0);

TEST(GatedDeltaOracle, WithoutDecayIsDeltaWhateverItPredictsFrom) {
  const Options undecayed = option("predict", "undecayed");
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = constant_rows(6, 1, 0), s.in["beta"] = uniform_rows(6, 1, 0, 2, 2);
  expect_close(read("gated_delta", s), read("delta", s));
  expect_close(read("gated_delta", with_options(s, undecayed)), read("delta", s));
}

TEST(GatedDeltaOracle, BetaZeroIsPureDecay) {
  Sequence s = random_sequence(no_options(), 3, 4, 3, 3);
  s.in["s0"] = normal_rows(3, 4, 4), s.q = Matrix(3, s.q[0]);
  s.in["log_decay"] = constant_rows(3, 1, std::log(0.5)), s.in["beta"] = constant_rows(3, 1, 0);
  expect_close(read("gated_delta", s)[2], scaled(0.125, times(s.in["s0"], s.q[0])));
}

TEST(GatedDeltaOracle, PredictsFromTheDecayedStateUnlessTold) {
  const Options undecayed = option("predict", "undecayed");
  Sequence s = random_sequence(no_options(), 2, 4, 3, 5);
  s.k = Matrix(2, unit(4, 0)), s.q = s.k;
  s.in["log_decay"] = {{0}, {std::log(0.5)}}, s.in["beta"] = {{1}, {1}};
  expect_close(read("gated_delta", s), s.v);  // exact overwrite
  expect_close(read("gated_delta", with_options(s, undecayed))[1], plus(s.v[1], -0.5, s.v[0]));
}

}  // namespace crosstalk::checks::gated_delta_test
