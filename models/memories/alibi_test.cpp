// Softmax attention with a linear bias (Press et al. 2022, arXiv 2108.12409): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::alibi_test {
namespace {

// o_t = sum_{j<=t} softmax_j(scale q_t.k_j - slope (t - j)) v_j
Matrix alibi(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector logits;
    for (int j = 0; j <= t; ++j) logits.push_back(dot(s.query(t), s.key(j)) - s.number("slope") * (t - j));
    o.push_back(softmax_average(logits, s.v, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(alibi, alibi);
CROSSTALK_GATE_LAW(alibi, slope, std::exp2(-8.0 * (x.head + 1) / x.heads));

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

}  // namespace
}  // namespace crosstalk::checks::alibi_test
