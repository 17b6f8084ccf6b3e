// Fast weight memory (Schlag, Munkhdalai, Schmidhuber 2021, arXiv 2011.07831): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::fwm_test {

TEST(FwmOracle, ASmallStateFollowsTheDeltaRule) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 1);
  s.k = unit_rows(s.k);
  for (Vector& v : s.v) v = scaled(0.01, v);
  s.in["beta"] = uniform_rows(5, 1, 0, 1, 2);
  expect_close(read("fwm", s), read("delta", s));
}

TEST(FwmOracle, TheStateIsCutToLengthOneAfterTheFirstToken) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 3);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = {unit(4, 0), unit(4, 0)}, s.v = {Vector{3, 0, 0}, Vector{0, 4, 0}};
  s.in["beta"] = {{1}, {1}};
  expect_close(read("fwm", s), Matrix{{3, 0, 0}, {0.6, 0, 0}});
}

TEST(FwmOracle, LayerNormOfTheReadHasMeanZeroAndVarianceOne) {
  const Options options = option("read_norm", "layernorm");
  Sequence s = random_sequence(options, 3, 4, 6, 4);
  s.in["beta"] = constant_rows(3, 1, 1);
  for (Vector& q : s.q) q = scaled(100, q);  // far above LayerNorm's eps
  for (const Vector& o : read("fwm", s)) {
    EXPECT_NEAR(dot(o, Vector(6, 1)), 0, 1e-9);
    EXPECT_NEAR(dot(o, o), 6, 1e-3);
  }
}

}  // namespace crosstalk::checks::fwm_test
