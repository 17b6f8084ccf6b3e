// M2RNN (Mishra et al. 2026, arXiv 2603.14360): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::m2rnn_test {

CROSSTALK_START(m2rnn, rate_from, "0", 11.18, 0);

Sequence sequence(double log_decay) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = constant_rows(6, 1, log_decay), s.in["turn"] = {{-1, 0, 0, 0, -1, 0, 0, 0, -1}};
  return s;
}

TEST(M2rnnOracle, WithoutForgettingNothingIsWritten) {
  expect_close(read("m2rnn", sequence(0)), zeros(6, 3));
}

TEST(M2rnnOracle, WithoutATurnItIsTheAverageOfWhatTanhLeaves) {
  Sequence s = sequence(std::log(0.75));
  Matrix S = zeros(3, 4), o;
  for (int t = 0; t < 6; ++t) {
    for (std::size_t v = 0; v < 3; ++v)
      for (std::size_t k = 0; k < 4; ++k)
        S[v][k] = 0.75 * S[v][k] + 0.25 * std::tanh(s.value(t)[v] * s.key(t)[k]);
    o.push_back(times(S, s.query(t)));
  }
  expect_close(read("m2rnn", s), o);
}

// With the identity what is held counts on, up to 1.
TEST(M2rnnOracle, NeverHoldsMoreThanOne) {
  Sequence s = sequence(-1);
  s.in["turn"] = {{40, 0, 0, 0, 40, 0, 0, 0, 40}}, s.q = Matrix(6, unit(4, 2));
  for (const Vector& row : read("m2rnn", s))
    for (const double x : row) EXPECT_LE(std::abs(x), 1);
}

}  // namespace crosstalk::checks::m2rnn_test
