// Linear attention, the sum rule (Katharopoulos et al. 2020, arXiv 2006.16236): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::linear_attention_test {

TEST(LinearAttentionOracle, OrthonormalKeysAreRecalledExactly) {
  Sequence s = random_sequence(no_options(), 5, 5, 3, 1);
  for (int t = 0; t < 5; ++t) s.k[static_cast<std::size_t>(t)] = unit(5, t);
  s.q = s.k;
  expect_close(read("linear_attention", s), s.v);
  s.q[4] = s.k[1];
  expect_close(read("linear_attention", s)[4], s.v[1]);
}

TEST(LinearAttentionOracle, TheOrderOfPairsDoesNotMatter) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 2);
  const Vector last = read("linear_attention", s)[4];
  std::swap(s.k[0], s.k[3]), std::swap(s.v[0], s.v[3]);
  expect_close(read("linear_attention", s)[4], last);
}

TEST(LinearAttentionOracle, DividedReadsAreAveragesUpToEps) {
  const Options divided = option("denominator", true);
  Sequence s = random_sequence(divided, 5, 4, 3, 3);
  s.q = uniform_rows(5, 4, 0.1, 1, 4), s.k = uniform_rows(5, 4, 0.1, 1, 5), s.v = constant_rows(5, 3, 2);
  expect_close(read("linear_attention", s), s.v);
  const double z_q = dot(s.q[0], s.k[0]);
  const Options with_eps = option("eps", 0.5, divided);
  expect_close(read("linear_attention", with_options(s, with_eps))[0], Vector(3, 2 * z_q / (z_q + 0.5)));
}

TEST(LinearAttentionOracle, BeginsAtTheStateThatIsGiven) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 6);
  const Matrix o = read("linear_attention", s);
  s.in["s0"] = normal_rows(3, 4, 7);
  Matrix want = o;
  for (int t = 0; t < 4; ++t) {
    Vector& row = want.at(static_cast<std::size_t>(t));
    row = plus(row, 1, times(s.in["s0"], s.query(t)));
  }
  expect_close(read("linear_attention", s), want);
}

}  // namespace crosstalk::checks::linear_attention_test
