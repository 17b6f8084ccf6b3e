// Diagonal Kalman Delta Network (arXiv 2609.07816): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::diag_kdn_test {

CROSSTALK_HALF_LIFE(diag_kdn, 11.85);

Sequence sequence(int T, int K, const Options& options) {
  Sequence s = random_sequence(options, T, K, 3, 1);
  s.in["log_decay"] = uniform_rows(T, K, -1, 0, 2), s.in["omega"] = uniform_rows(T, K, 0.1, 1, 3);
  s.in["r"] = uniform_rows(T, 1, 0.2, 1, 4), s.in["prior"] = {{0.8}};
  return s;
}

TEST(DiagKdnOracle, OfOneChannelIsTheIsotropicOne) {
  const Sequence s = sequence(6, 1, no_options());
  expect_close(read("diag_kdn", s), read("iso_kdn", s));
}

// Keys of one channel each: that channel is the Kalman filter, and a ridge regression whose ridge is prior r.
TEST(DiagKdnOracle, OfOneChannelKeysWithoutDecayIsARidgeRegression) {
  const Options quarter = option("information", 0.25);
  Sequence s = sequence(8, 4, quarter);
  for (std::size_t t = 0; t < 8; ++t) s.k[t] = unit(4, static_cast<int>(t) % 4);
  s.in["log_decay"] = zeros(8, 4), s.in["omega"] = zeros(8, 4), s.in["r"] = constant_rows(8, 1, 0.6);
  Sequence ridge = with_options(s, no_options());
  ridge.in["beta"] = constant_rows(8, 1, 1), ridge.in["ridge"] = constant_rows(1, 4, 0.8 * 0.6);
  ridge.in["log_decay"] = constant_rows(8, 1, 0);
  expect_close(read("diag_kdn", s), read("mesa", ridge));
}

TEST(DiagKdnOracle, WritesAlongUncertainChannels) {
  Sequence s = sequence(1, 2, no_options());
  s.k = {{0.6, 0.8}}, s.q = {{1, 0}}, s.in["omega"] = {{1e12, 0}};
  expect_close(read("diag_kdn", s)[0], scaled(1 / 0.6, s.v[0]), 1e-9);
}

}  // namespace crosstalk::checks::diag_kdn_test
