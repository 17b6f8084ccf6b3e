// Softmax attention with a learned sink (Xiao et al. 2024, arXiv 2309.17453): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::attention_sink_test {
namespace {

// The softmax over the sink and the tokens seen, of which the sink holds a value of 0.
Matrix attention_sink(const Sequence& s) {
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    Vector logits = {s.number("sink")};
    Matrix values = {Vector(static_cast<std::size_t>(s.V), 0)};
    for (int j = 0; j <= t; ++j) logits.push_back(dot(s.query(t), s.key(j))), values.push_back(s.value(j));
    o.push_back(softmax_average(logits, values, 0, s.V));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(attention_sink, attention_sink);

TEST(AttentionSinkOracle, WithoutTheSinkItIsSoftmax) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["sink"] = {{-800}};
  expect_close(read("attention_sink", s), read("softmax", s));
}

TEST(AttentionSinkOracle, ASinkOfZeroAddsOneToTheDenominator) {
  Sequence s = random_sequence(no_options(), 1, 4, 3, 2);
  s.in["sink"] = {{0}};
  const double weight = std::exp(dot(s.q[0], s.k[0]));
  expect_close(read("attention_sink", s)[0], scaled(weight / (1 + weight), s.v[0]));
}

TEST(AttentionSinkOracle, AHighSinkReadsNothing) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 3);
  s.in["sink"] = {{800}};
  expect_close(read("attention_sink", s), zeros(6, 3));
}

}  // namespace
}  // namespace crosstalk::checks::attention_sink_test
