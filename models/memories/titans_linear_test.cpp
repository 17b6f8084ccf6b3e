// Titans with a linear memory (Behrouz, Zhong, Mirrokni 2025, arXiv 2501.00663): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::titans_linear_test {

Sequence sequence(const Options& options, int T, double momentum, double forget) {
  Sequence s = random_sequence(options, T, 4, 3, 1);
  s.in["rate"] = s.in["beta"] = uniform_rows(T, 1, 0.1, 0.9, 5);
  s.in["momentum_gate"] = constant_rows(T, 1, momentum), s.in["forget_gate"] = constant_rows(T, 1, forget);
  return s;
}

TEST(TitansLinearOracle, OneMiniBatchFromZeroIsASum) {
  const Options options = option("mini_batch", 6);
  Sequence s = sequence(options, 6, 0, 0);
  s.in["step"] = s.in["rate"], s.in["log_decay"] = constant_rows(6, 1, 0);
  expect_close(read("titans_linear", s), read("mamba2", s));
}

// A write at rate 1 with momentum 1/2 goes on while nothing is written: 1, 3/2, 7/4 of the value.
TEST(TitansLinearOracle, MomentumGoesOn) {
  Sequence s = sequence(no_options(), 3, 0.5, 0);
  s.k = {unit(4, 0), Vector(4, 0), Vector(4, 0)}, s.q = Matrix(3, unit(4, 0));
  s.in["rate"] = constant_rows(3, 1, 1);
  expect_close(read("titans_linear", s), Matrix{s.v[0], scaled(1.5, s.v[0]), scaled(1.75, s.v[0])});
}

}  // namespace crosstalk::checks::titans_linear_test
