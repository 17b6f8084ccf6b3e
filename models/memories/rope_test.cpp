// Softmax attention with rotary positions (Su et al. 2021, arXiv 2104.09864): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rope_test {

TEST(RopeOracle, OneTokenIsSoftmax) {
  const Sequence s = random_sequence(no_options(), 1, 4, 3, 1);
  expect_close(read("rope", s), read("softmax", s));
}

TEST(RopeOracle, OnlyDistancesCount) {
  Sequence s = random_sequence(no_options(), 7, 4, 3, 2);
  const Vector last = read("rope", s)[6];
  Sequence later = random_sequence(no_options(), 9, 4, 3, 2);  // two tokens before that nobody can see
  later.q.assign(9, s.q[6]), later.v.assign(9, Vector(3, 0));
  for (std::size_t t = 0; t < 7; ++t) later.k[t + 2] = s.k[t], later.v[t + 2] = s.v[t];
  for (std::size_t t = 0; t < 2; ++t) later.k[t] = Vector(4, 0);
  // Scores of 0 weigh 1 each: take them out of the denominator.
  double total = 0;
  for (int j = 0; j < 7; ++j) {
    Sequence one = random_sequence(no_options(), 9, 4, 1, 2);
    one.q = later.q, one.k = later.k, one.v = zeros(9, 1), one.v[static_cast<std::size_t>(j) + 2] = {1};
    total += read("rope", one)[8][0];
  }
  expect_close(scaled(1 / total, read("rope", later)[8]), last);
}

TEST(RopeOracle, ATokenInFrontOfItselfIsNotTurned) {
  const Options options = option("scale", 50.0);
  Sequence s = random_sequence(options, 6, 4, 3, 3);
  for (std::size_t t = 0; t < 6; ++t) s.k[t] = s.q[t] = unit(4, 0);
  expect_close(read("rope", s), s.v, 1e-9);  // the nearest token looks most alike
}

}  // namespace crosstalk::checks::rope_test
