// The gated Oja rule (fla/ops/gated_oja_rule): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gated_oja_test {

CROSSTALK_HALF_LIFE(gated_oja, 13.265);

Sequence ordinary(std::uint64_t seed) {
  static const Options plain = option("value_norm", "none");
  Sequence s = random_sequence(plain, 6, 4, 3, seed);
  s.v = unit_rows(s.v);
  s.in["log_decay"] = zeros(6, 3), s.in["beta"] = constant_rows(6, 1, 1);
  return s;
}

// The delta rule forgets what a key held, this one what a value held.
TEST(GatedOjaOracle, AValueThatIsWrittenAgainForgetsItsOldKey) {
  Sequence s = ordinary(1);
  s.v = Matrix(6, unit(3, 1));
  const Matrix o = read("gated_oja", s);
  for (std::size_t t = 0; t < 6; ++t) EXPECT_NEAR(o[t][1], dot(s.k[t], s.q[t]), 1e-12);
}

TEST(GatedOjaOracle, DistinctValuesAreASumRule) {
  Sequence s = ordinary(2);
  s.T = 3;
  for (Matrix* rows : {&s.q, &s.k, &s.v, &s.in["log_decay"], &s.in["beta"]}) rows->resize(3);
  for (int t = 0; t < 3; ++t) s.v[static_cast<std::size_t>(t)] = unit(3, t);
  expect_close(read("gated_oja", s), read("linear_attention", with_options(s, no_options())));
}

}  // namespace crosstalk::checks::gated_oja_test
