// BaseConv with a long convolution (Arora et al. 2023, arXiv 2312.04927): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::long_conv_test {

TEST(LongConvOracle, AConstantFilterAddsUp) {
  Sequence s = random_sequence(no_options(), 5, 1, 3, 1);
  s.in["gate"] = constant_rows(5, 3, 1);
  for (const char* name : {"filter_time", "filter_cos", "filter_sin", "filter_bias"})
    s.in[name] = zeros(1, 16);
  s.in["filter_out"] = zeros(1, 48), s.in["filter_out_bias"] = constant_rows(1, 3, 2);
  const Matrix o = read("long_conv", s);
  Vector sum(3, 0);
  for (std::size_t t = 0; t < 5; ++t) expect_close(o[t], scaled(2, sum = plus(sum, 1, s.v[t])));
}

}  // namespace crosstalk::checks::long_conv_test
