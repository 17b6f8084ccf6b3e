// TTT-Linear (Sun et al. 2024, arXiv 2407.04620): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::ttt_linear_test {

Sequence sequence(const Options& options, int T) {
  Sequence s = random_sequence(options, T, 5, 5, 1);
  s.in["rate"] = constant_rows(T, 1, 0.1), s.in["s0"] = normal_rows(5, 5, 4);
  s.in["gain"] = constant_rows(1, 5, 1), s.in["bias"] = constant_rows(1, 5, 0);
  return s;
}

TEST(TttLinearOracle, WhatIsHeldAlreadyChangesNothing) {
  const Options options = option("residual", true);
  Sequence s = sequence(options, 3);
  s.q = Matrix(3, s.k[0]), s.k = Matrix(3, s.k[0]);
  Sequence idle = s;
  idle.in["rate"] = constant_rows(3, 1, 0);
  s.v = read("ttt_linear", idle);
  expect_close(read("ttt_linear", s), s.v);
}

TEST(TttLinearOracle, WithoutTheResidualAReadHasMeanZeroAndVarianceOne) {
  const Options options = option("residual", false);
  for (const Vector& o : read("ttt_linear", sequence(options, 4))) {
    EXPECT_NEAR(dot(o, Vector(5, 1)), 0, 1e-12);
    EXPECT_NEAR(dot(o, o), 5, 1e-4);
  }
}

// All gradients of a mini-batch are taken where it began: the order of its tokens does not matter to who
// reads it all.
TEST(TttLinearOracle, TheOrderWithinAMiniBatchDoesNotMatter) {
  const Options options = option("mini_batch", 3, option("residual", true));
  Sequence s = sequence(options, 3);
  const Vector last = read("ttt_linear", s)[2];
  std::swap(s.k[0], s.k[2]), std::swap(s.v[0], s.v[2]);
  expect_close(read("ttt_linear", s)[2], last);
}

}  // namespace crosstalk::checks::ttt_linear_test
