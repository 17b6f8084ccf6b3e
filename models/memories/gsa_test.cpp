// Gated slot attention (Zhang et al. 2024, arXiv 2409.07146): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gsa_test {

CROSSTALK_HALF_LIFE(gsa, 7.9615);

TEST(GsaOracle, SlotsThatTakeOneTokenEachAreSoftmaxAttention) {
  const Options five = option("slots", 5);
  Sequence s = random_sequence(five, 5, 4, 3, 1);
  s.in["log_decay"] = zeros(5, 5);
  for (std::size_t t = 0; t < 5; ++t) s.in["log_decay"][t][t] = -800;
  const Matrix o = read("gsa", s);
  Sequence plain = random_sequence(no_options(), 5, 4, 3, 1);
  expect_close(o[4], read("softmax", plain)[4]);
}

TEST(GsaOracle, AConstantValueIsReadOnceAllSlotsAreFull) {
  const Options two = option("slots", 2);
  Sequence s = random_sequence(two, 4, 3, 2, 2);
  s.v = constant_rows(4, 2, 1);
  s.in["log_decay"] = constant_rows(4, 2, -0.5);
  s.in["log_decay"][0] = {-800, -800};
  expect_close(read("gsa", s), s.v);
}

}  // namespace crosstalk::checks::gsa_test
