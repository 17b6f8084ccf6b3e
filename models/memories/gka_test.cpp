// Gated KalmaNet (arXiv 2511.21016): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gka_test {
namespace {

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

/// x of (H + ridge I) x = q, by elimination.
Vector solved(Matrix H, double ridge, Vector q) {
  const std::size_t n = q.size();
  for (std::size_t i = 0; i < n; ++i) H[i][i] += ridge;
  for (std::size_t p = 0; p < n; ++p) {
    for (std::size_t i = 0; i < n; ++i) {
      if (i == p) continue;
      const double f = H[i][p] / H[p][p];
      H[i] = plus(H[i], -f, H[p]), q[i] -= f * q[p];
    }
  }
  for (std::size_t p = 0; p < n; ++p) q[p] /= H[p][p];
  return q;
}

/// What the exact solution reads, mixed by alpha.
Matrix exact(const Sequence& s, double ratio) {
  Matrix S = zeros(3, 4), H = zeros(4, 4), o;
  for (int t = 0; t < s.T; ++t) {
    const double left = std::exp(s.number("log_decay", t)), beta = s.number("beta", t);
    S = plus_outer(times(left, S), beta * beta, s.value(t), s.key(t));
    H = plus_outer(times(left, H), beta * beta, s.key(t), s.key(t));
    double square = 0;
    for (const Vector& row : H) square += dot(row, row);
    const Vector x = solved(H, ratio * std::sqrt(square), s.query(t));
    const double alpha = s.number("alpha", t);
    o.push_back(times(S, plus(scaled(1 - alpha, s.query(t)), alpha, x)));
  }
  return o;
}

TEST(GkaOracle, ManyStepsAreTheSolution) {
  const Options many = option("iterations", 140);
  const Options by_elimination = option("solver", "exact");
  const Sequence s = sequence(many, 0.7);
  const Matrix o = read("gka", s);
  expect_close(o, exact(s, 0.02));
  expect_close(read("gka", with_options(s, by_elimination)), o);
}

// The error of n steps is at most 2 r^n of what they solve, r = (sqrt(c) - 1) / (sqrt(c) + 1), c = 1 + 1 / ratio.
TEST(GkaOracle, ThirtyStepsAreNearTheSolution) {
  const Sequence s = sequence(no_options(), 1);
  const Matrix want = exact(s, 0.02), got = read("gka", s);
  for (std::size_t t = 0; t < 6; ++t)
    for (std::size_t v = 0; v < 3; ++v) EXPECT_NEAR(got[t][v], want[t][v], 0.02);
}

TEST(GkaOracle, KeysOfZeroReadNothing) {
  Sequence s = sequence(no_options(), 0.5);
  s.k = zeros(6, 4);
  expect_close(read("gka", s), zeros(6, 3));
}

}  // namespace
}  // namespace crosstalk::checks::gka_test
