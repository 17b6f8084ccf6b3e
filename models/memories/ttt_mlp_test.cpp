// TTT-MLP (Sun et al. 2024, arXiv 2407.04620): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::ttt_mlp_test {

Sequence sequence(const Options& options, int T) {
  Sequence s = random_sequence(options, T, 3, 4, 1);
  s.in["rate"] = constant_rows(T, 1, 0.02);
  s.in["gain"] = constant_rows(1, 4, 1), s.in["bias"] = constant_rows(1, 4, 0);
  s.in["w1_0"] = normal_rows(1, 12 * 3, 5), s.in["b1_0"] = normal_rows(1, 12, 6);
  s.in["w2_0"] = normal_rows(1, 4 * 12, 7), s.in["b2_0"] = normal_rows(1, 4, 8);
  return s;
}

TEST(TttMlpOracle, AStepBringsTheReadNearerToTheValue) {
  const Options options = option("residual", true);
  Sequence s = sequence(options, 1);
  s.q = s.k;
  const Vector is = minus(read("ttt_mlp", s)[0], s.v[0]);
  s.in["rate"] = {{0}};
  const Vector was = minus(read("ttt_mlp", s)[0], s.v[0]);
  EXPECT_LT(dot(is, is), dot(was, was));
}

TEST(TttMlpOracle, TheOrderWithinAMiniBatchDoesNotMatter) {
  const Options options = option("mini_batch", 3, option("residual", true));
  Sequence s = sequence(options, 3);
  const Vector last = read("ttt_mlp", s)[2];
  std::swap(s.k[0], s.k[2]), std::swap(s.v[0], s.v[2]);
  expect_close(read("ttt_mlp", s)[2], last);
}

}  // namespace crosstalk::checks::ttt_mlp_test
