// Stick-breaking attention (Tan et al. 2024, arXiv 2410.17980): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::stick_breaking_test {
namespace {

// The stick is passed from the token before the query back to the first one.
Matrix stick_breaking(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector read(static_cast<std::size_t>(s.V), 0);
    double left = 1;
    for (int j = t - 1; j >= 0; --j) {
      const double share = 1 / (1 + std::exp(-dot(s.query(t), s.key(j))));
      read = plus(read, left * share, s.value(j));
      left *= 1 / (1 + std::exp(dot(s.query(t), s.key(j))));
    }
    o.push_back(read);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(stick_breaking, stick_breaking);

TEST(StickBreakingOracle, ScoresOfZeroHalveTheStickEveryTime) {
  Sequence s = random_sequence(no_options(), 4, 2, 3, 1);
  s.q = zeros(4, 2);
  const Matrix o = read("stick_breaking", s);
  expect_close(o[0], Vector(3, 0));
  expect_close(o[3], plus(plus(scaled(0.5, s.v[2]), 0.25, s.v[1]), 0.125, s.v[0]));
}

// Of tokens that the query knows equally well the last one is read: the rule of MQAR with keys that are written again.
TEST(StickBreakingOracle, TheLastOfEqualKeysIsRead) {
  Sequence s = random_sequence(no_options(), 4, 2, 3, 2);
  s.k = {{1, 0}, {1, 0}, {-1, 0}, {0, 1}}, s.q = Matrix(4, Vector{1000, 0});
  expect_close(read("stick_breaking", s)[3], s.v[1]);
}

}  // namespace
}  // namespace crosstalk::checks::stick_breaking_test
