// Hyena (Poli et al. 2023, arXiv 2302.10866): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::hyena_test {

TEST(HyenaOracle, WithoutAFilterOnlyTheOwnTokenIsRead) {
  Sequence s = random_sequence(no_options(), 5, 1, 3, 1);
  for (const char* name :
       {"filter_time", "filter_cos", "filter_sin", "filter_bias", "filter_1_bias", "filter_2_bias"})
    s.in[name] = zeros(1, 16);
  s.in["frequency"] = constant_rows(1, 16, 1);
  s.in["filter_1"] = s.in["filter_2"] = zeros(1, 256), s.in["filter_out"] = zeros(1, 48);
  s.in["window"] = s.in["skip"] = constant_rows(1, 3, 2);
  s.in["pre_gate"] = constant_rows(5, 3, 3), s.in["post_gate"] = constant_rows(5, 3, 0.5);
  const Matrix o = read("hyena", s);
  for (std::size_t t = 0; t < 5; ++t) expect_close(o[t], scaled(3, s.v[t]));
}

}  // namespace crosstalk::checks::hyena_test
