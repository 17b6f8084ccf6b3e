// Softmax attention with an output gate (Qiu et al. 2025, arXiv 2505.06708): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gated_attention_test {

TEST(GatedAttentionOracle, AGateBelongsToTheTokenThatAsks) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.in["gate"] = constant_rows(6, 3, 1);
  const Matrix open = read("gated_attention", s);
  s.in["gate"][2] = {0.25, 1, 1};
  Matrix want = open;
  want[2][0] *= 0.25;
  expect_close(read("gated_attention", s), want);
}

}  // namespace crosstalk::checks::gated_attention_test
