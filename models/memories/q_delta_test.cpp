// Q-Delta (Park, Kim, Park 2026, arXiv 2606.08804): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::q_delta_test {

CROSSTALK_HALF_LIFE(q_delta, 12.32);
CROSSTALK_START(q_delta, rate_from, "0", 11.18, 0);

Sequence sequence(int T, double lambda) {
  Sequence s = random_sequence(no_options(), T, 4, 3, 1);
  s.k = unit_rows(s.k), s.q = unit_rows(s.q);
  s.in["log_decay"] = uniform_rows(T, 1, -1, 0, 2), s.in["beta"] = uniform_rows(T, 1, 0, 1, 3);
  s.in["query_share"] = constant_rows(T, 1, lambda);
  return s;
}

TEST(QDeltaOracle, WithoutFeedbackIsGatedDelta) {
  const Sequence s = sequence(6, 0);
  expect_close(read("q_delta", s), read("gated_delta", s));
}

// A query that is orthogonal to the key takes out of the value what it reads itself.
TEST(QDeltaOracle, WhatTheQueryReadsIsNotWritten) {
  Sequence s = sequence(2, 0.5);
  s.k = {unit(4, 0), unit(4, 1)}, s.q = {unit(4, 2), unit(4, 0)};
  s.in["beta"] = constant_rows(2, 1, 1), s.in["log_decay"] = zeros(2, 1);
  expect_close(read("q_delta", s)[1], s.v[0]);
  s.q[1] =
      plus(unit(4, 0), 1, unit(4, 1));  // reads the first value, and what the second token wrote: v - v_1 / 2
  expect_close(read("q_delta", s)[1], plus(scaled(0.5, s.v[0]), 1, s.v[1]));
}

// Lemma 3.1: v - S_t x = (1 - beta k.x) (v - S_{t-1} x); the key that is its query is the delta rule at beta (1 + lambda), of v / (1 + lambda).
TEST(QDeltaOracle, AskingForTheKeyItselfIsADeltaRule) {
  Sequence s = sequence(6, 0.25);
  s.q = s.k, s.in["log_decay"] = zeros(6, 1), s.in["beta"] = constant_rows(6, 1, 0.4);
  const Matrix o = read("q_delta", s);
  s.in["beta"] = constant_rows(6, 1, 0.5), s.v = times(0.8, s.v);
  expect_close(o, read("delta", s));
}

}  // namespace crosstalk::checks::q_delta_test
