// Forgetting attention (Lin et al. 2025, arXiv 2503.02130): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::fox_test {

CROSSTALK_HALF_LIFE(fox, 1.033);

TEST(FoxOracle, ShutGateForgetsAllTokensBefore) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.in["log_decay"] = constant_rows(6, 1, 0);
  s.in["log_decay"][4] = {-200};
  Sequence rest = random_sequence(no_options(), 2, 4, 3, 2);
  rest.q = {s.q[4], s.q[5]}, rest.k = {s.k[4], s.k[5]}, rest.v = {s.v[4], s.v[5]};
  const Matrix o = read("fox", s);
  expect_close(Matrix{o[4], o[5]}, read("softmax", rest));
}

TEST(FoxOracle, TheFirstGateIsNeverSeen) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 3);
  s.in["log_decay"] = uniform_rows(6, 1, -2, 0, 4);
  const Matrix o = read("fox", s);
  s.in["log_decay"][0] = {-50};
  expect_close(read("fox", s), o);
}

}  // namespace crosstalk::checks::fox_test
