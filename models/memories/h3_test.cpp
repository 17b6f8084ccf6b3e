// H3 (Fu et al. 2022, arXiv 2212.14052): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::h3_test {

TEST(H3Oracle, WithoutRatesItIsLinearAttention) {
  const Options one = option("waves", 1);
  Sequence s = random_sequence(one, 6, 4, 3, 1);
  s.in["rate"] = s.in["angle"] = s.in["read_imag"] = s.in["skip"] = zeros(1, 1);
  s.in["read"] = {{0.5}};
  expect_close(read("h3", s), read("linear_attention", with_options(s, no_options())));
}

}  // namespace crosstalk::checks::h3_test
