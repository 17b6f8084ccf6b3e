// Softmax attention with a learned sink (Xiao et al. 2024, arXiv 2309.17453): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::attention_sink_test {

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

}  // namespace crosstalk::checks::attention_sink_test
