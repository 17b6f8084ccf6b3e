// Differential attention (Ye et al. 2024, arXiv 2410.05258): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::differential_attention_test {

Sequence sequence(std::uint64_t seed, double lambda) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, seed);
  s.in["second_query"] = normal_rows(6, 4, 7), s.in["second_key"] = normal_rows(6, 4, 8);
  s.in["second_share"] = {{lambda}};
  return s;
}

TEST(DifferentialAttentionOracle, WithoutTheSecondItIsSoftmax) {
  const Sequence s = sequence(1, 0);
  expect_close(read("differential_attention", s), read("softmax", s));
}

TEST(DifferentialAttentionOracle, WhatBothSeeCancels) {
  Sequence s = sequence(2, 1);
  s.in["second_query"] = s.q, s.in["second_key"] = s.k;
  expect_close(read("differential_attention", s), zeros(6, 3));
}

TEST(DifferentialAttentionOracle, AConstantValueIsReadLessLambda) {
  Sequence s = sequence(3, 0.4);
  s.v = constant_rows(6, 3, 2);
  expect_close(read("differential_attention", s), times(0.6, s.v));
}

}  // namespace crosstalk::checks::differential_attention_test
