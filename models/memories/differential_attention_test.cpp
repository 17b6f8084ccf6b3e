// Differential attention (Ye et al. 2024, arXiv 2410.05258): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::differential_attention_test {
namespace {

Matrix differential_attention(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    const int seen = s.flag("strict") ? t : t + 1;
    Vector logits, second;
    for (int j = 0; j < seen; ++j) {
      logits.push_back(dot(s.query(t), s.key(j)));
      second.push_back(s.real("scale", 1) * dot(s.row("second_query", t), s.row("second_key", j)));
    }
    o.push_back(plus(softmax_average(logits, s.v, 0, s.V), -s.number("second_share"),
                     softmax_average(second, s.v, 0, s.V)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(differential_attention, differential_attention);
CROSSTALK_GATE_LAW(differential_attention, second_share,
                   0.2 + std::exp(dot(x.all("lambda_q1"), x.all("lambda_k1"))) -
                       std::exp(dot(x.all("lambda_q2"), x.all("lambda_k2"))));

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

}  // namespace
}  // namespace crosstalk::checks::differential_attention_test
