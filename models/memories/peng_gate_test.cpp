// Random feature attention with a gate (Peng et al. 2021, arXiv 2103.02143): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::peng_gate_test {

CROSSTALK_HALF_LIFE(peng_gate, 1.052);

TEST(PengGateOracle, AWriteFadesWhatItDoesNotTouch) {
  Sequence s = random_sequence(no_options(), 2, 4, 3, 1);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = {unit(4, 0), unit(4, 0)};
  s.in["beta"] = {{1}, {0.3}};
  expect_close(read("peng_gate", s), Matrix{s.v[0], scaled(0.7, s.v[0])});
}

TEST(PengGateOracle, FullGateKeepsTheLastPairAlone) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.in["beta"] = constant_rows(4, 1, 1);
  expect_close(read("peng_gate", s)[3], scaled(dot(s.k[3], s.q[3]), s.v[3]));
}

TEST(PengGateOracle, DividedReadsAreAverages) {
  const Options divided = option("denominator", true);
  Sequence s = random_sequence(divided, 5, 4, 3, 3);
  s.q = uniform_rows(5, 4, 0.1, 1, 4), s.k = uniform_rows(5, 4, 0.1, 1, 5), s.v = constant_rows(5, 3, -3);
  s.in["beta"] = uniform_rows(5, 1, 0.1, 0.9, 6);
  expect_close(read("peng_gate", s), s.v);
}

}  // namespace crosstalk::checks::peng_gate_test
