// Fast weights with decay on both sides (Mao 2022, arXiv 2210.04243): their oracle and their laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::dfw_test {

CROSSTALK_HALF_LIFE(dfw, 0.9964);
CROSSTALK_INPUT_START(dfw, log_decay_v, 1);

TEST(DfwOracle, WithoutDecayOfValuesIsGla) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 4, -2, 0, 2), s.in["log_decay_v"] = constant_rows(6, 3, 0);
  expect_close(read("dfw", s), read("gla", s));
}

TEST(DfwOracle, KeysAndValuesChangePlacesInTheTransposedState) {
  Sequence s = random_sequence(no_options(), 4, 3, 3, 3);
  s.in["log_decay"] = uniform_rows(4, 3, -2, 0, 4), s.in["log_decay_v"] = uniform_rows(4, 3, -2, 0, 5);
  Sequence transposed = s;
  std::swap(transposed.k, transposed.v);
  std::swap(transposed.in["log_decay"], transposed.in["log_decay_v"]);
  const Vector x = s.q[3], y = s.q[0];  // y^T S x = x^T S^T y
  transposed.q[3] = y;
  EXPECT_NEAR(dot(y, read("dfw", s)[3]), dot(x, read("dfw", transposed)[3]), 1e-12);
}

}  // namespace crosstalk::checks::dfw_test
