// Softmax attention in a window (Beltagy et al. 2020, arXiv 2004.05150): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::sliding_window_test {

TEST(SlidingWindowOracle, WindowOfOneReadsTheTokenItself) {
  const Options one = option("window", 1);
  const Sequence s = random_sequence(one, 6, 4, 3, 1);
  expect_close(read("sliding_window", s), s.v);
}

TEST(SlidingWindowOracle, WindowOfTheWholeSequenceIsSoftmax) {
  const Options all = option("window", 6);
  const Sequence s = random_sequence(all, 6, 4, 3, 2);
  expect_close(read("sliding_window", s), read("softmax", s));
}

TEST(SlidingWindowOracle, ForgetsWhatLeftTheWindow) {
  const Options two = option("window", 2);
  Sequence s = random_sequence(two, 6, 4, 3, 3);
  const Matrix before = read("sliding_window", s);
  s.v[2] = Vector(3, 100);
  const Matrix after = read("sliding_window", s);
  for (const int t : {0, 1, 4, 5})
    expect_close(after.at(static_cast<std::size_t>(t)), before.at(static_cast<std::size_t>(t)));
  EXPECT_NE(after[3], before[3]);
}

}  // namespace crosstalk::checks::sliding_window_test
