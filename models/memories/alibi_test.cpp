// Softmax attention with a linear bias (Press et al. 2022, arXiv 2108.12409): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::alibi_test {

TEST(AlibiOracle, SlopeZeroIsSoftmax) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["slope"] = {{0}};
  expect_close(read("alibi", s), read("softmax", s));
}

TEST(AlibiOracle, EqualsForgettingAttentionWithAConstantGate) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.in["slope"] = {{0.3}};
  s.in["log_decay"] = constant_rows(6, 1, -0.3);
  expect_close(read("alibi", s), read("fox", s));
}

}  // namespace crosstalk::checks::alibi_test
