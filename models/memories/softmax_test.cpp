// Softmax attention (Vaswani et al. 2017, arXiv 1706.03762): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::softmax_test {

TEST(SoftmaxOracle, OneTokenReadsItsValueAndEqualValuesReadThemselves) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  expect_close(read("softmax", s)[0], s.v[0]);
  s.v = constant_rows(6, 3, 0.75);
  expect_close(read("softmax", s), s.v);
}

TEST(SoftmaxOracle, LargeScaleReadsTheNearestKeyAndStaysFinite) {
  const Options sharp = option("scale", 1e4);
  Sequence s = random_sequence(sharp, 5, 5, 3, 2);
  for (int t = 0; t < 5; ++t) s.k[static_cast<std::size_t>(t)] = unit(5, t);
  s.q = Matrix(5, unit(5, 0));
  expect_close(read("softmax", s), Matrix(5, s.v[0]));
}

TEST(SoftmaxOracle, StrictSeesOnlyThePast) {
  const Options strict = option("strict", true);
  Sequence s = random_sequence(strict, 6, 4, 3, 3);
  const Matrix before = read("softmax", s);
  expect_close(before[0], Vector(3, 0));
  expect_close(before[1], s.v[0]);
  s.k[5] = scaled(-3, s.k[5]), s.v[5] = scaled(7, s.v[5]);
  expect_close(read("softmax", s)[5], before[5]);
}

}  // namespace crosstalk::checks::softmax_test
