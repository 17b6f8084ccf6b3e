// Gated KalmaNet (arXiv 2511.21016): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gka_test {

CROSSTALK_START(gka, rate_from, "0", 11.18, 0);

Sequence sequence(const Options& options, double alpha) {
  Sequence s = random_sequence(options, 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, 2), s.in["beta"] = uniform_rows(6, 1, 0.1, 1, 3);
  s.in["alpha"] = constant_rows(6, 1, alpha);
  return s;
}

TEST(GkaOracle, WithoutTheSolutionItFadesAndAdds) {
  Sequence s = sequence(no_options(), 0);
  const Matrix o = read("gka", s);
  for (std::size_t t = 0; t < 6; ++t) s.k[t] = scaled(s.in["beta"][t][0] * s.in["beta"][t][0], s.k[t]);
  expect_close(o, read("simple_gla", s));
}

// The error of n steps is at most 2 r^n of what they solve, r = (sqrt(c) - 1) / (sqrt(c) + 1), c = 1 + 1 / ratio.
TEST(GkaOracle, StepsGoToTheSolution) {
  const Options many = option("iterations", 140), exact = option("solver", "exact");
  const Sequence s = sequence(many, 0.7);
  const Matrix want = read("gka", with_options(s, exact)), near = read("gka", with_options(s, no_options()));
  expect_close(read("gka", s), want);
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t v = 0; v < 3; ++v) EXPECT_NEAR(near[t][v], want[t][v], 0.02);
}

TEST(GkaOracle, KeysOfZeroReadNothing) {
  Sequence s = sequence(no_options(), 0.5);
  s.k = zeros(6, 4);
  expect_close(read("gka", s), zeros(6, 3));
}

}  // namespace crosstalk::checks::gka_test
