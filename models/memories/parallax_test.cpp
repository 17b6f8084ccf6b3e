// Parallax (2026, arXiv 2605.29157): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::parallax_test {
namespace {

// Algorithm 1: o = O1 / d1 (1 + d2 / d1) - O2 / d1, sums over tokens of e^{q.k}, and of e^{q.k} r.k.
Matrix parallax(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    const int seen = s.flag("strict") ? t : t + 1;
    double top = -1e300, d1 = 0, d2 = 0;
    for (int j = 0; j < seen; ++j) top = std::max(top, dot(s.query(t), s.key(j)));
    Vector o1(static_cast<std::size_t>(s.V), 0), o2 = o1;
    for (int j = 0; j < seen; ++j) {
      const double p = std::exp(dot(s.query(t), s.key(j)) - top),
                   bend = dot(s.row("second_query", t), s.key(j));
      d1 += p, d2 += p * bend;
      o1 = plus(o1, p, s.value(j)), o2 = plus(o2, p * bend, s.value(j));
    }
    o.push_back(seen == 0 ? o1 : plus(scaled((1 + d2 / d1) / d1, o1), -1 / d1, o2));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(parallax, parallax);

TEST(ParallaxOracle, WithoutASecondQueryItIsSoftmax) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["second_query"] = zeros(6, 4);
  expect_close(read("parallax", s), read("softmax", s));
}

TEST(ParallaxOracle, AConstantValueIsReadWhateverTheQueries) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.in["second_query"] = normal_rows(6, 4, 7);
  s.v = constant_rows(6, 3, 2);
  expect_close(read("parallax", s), s.v);
}

// Values that are linear in the keys are read off where the query wants, with r = S^-1 (mean - wanted), here along one key axis.
TEST(ParallaxOracle, MovesAlongTheSlopeOfValues) {
  Sequence s = random_sequence(no_options(), 2, 1, 1, 3);
  s.k = {{0}, {1}}, s.v = {{5}, {7}}, s.q = Matrix(2, Vector(1, 0));
  s.in["second_query"] = constant_rows(2, 1, -2);  // variance of keys 1/4: from the mean by 1/2
  EXPECT_NEAR(read("parallax", s)[1][0], 7, 1e-12);
}

}  // namespace
}  // namespace crosstalk::checks::parallax_test
