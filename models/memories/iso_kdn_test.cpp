// Isotropic Kalman Delta Network (arXiv 2609.07816): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::iso_kdn_test {

CROSSTALK_HALF_LIFE(iso_kdn, 11.85);

// A state of one number whose observations are equally noisy is their sum over prior + t / r, of unit keys.
TEST(IsoKdnOracle, OfOneChannelIsTheKalmanFilter) {
  Sequence s = random_sequence(no_options(), 6, 1, 3, 1);
  s.k = s.q = constant_rows(6, 1, 1);
  s.in["log_decay"] = constant_rows(6, 1, 0), s.in["omega"] = constant_rows(6, 1, 0);
  s.in["r"] = constant_rows(6, 1, 0.7), s.in["prior"] = {{0.4}};
  Matrix o;
  Vector sum(3, 0);
  for (int t = 0; t < 6; ++t) {
    sum = plus(sum, 1 / 0.7, s.value(t));
    o.push_back(scaled(1 / (0.4 + (t + 1) / 0.7), sum));
  }
  expect_close(read("iso_kdn", s), o);
}

// Noise beyond all bounds makes the gain 1 / |k|^2; so does an observation without noise.
TEST(IsoKdnOracle, OfASureObservationIsKdaAtTheRateOne) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 2);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 3), s.in["beta"] = constant_rows(6, 1, 1);
  const Matrix o = read("kda", s);
  s.in["omega"] = constant_rows(6, 1, 1e12), s.in["r"] = constant_rows(6, 1, 0.01), s.in["prior"] = {{1}};
  expect_close(read("iso_kdn", s), o, 1e-9);
}

TEST(IsoKdnOracle, LearnsLessTheMoreItHasSeen) {
  Sequence s = random_sequence(no_options(), 5, 4, 1, 4);
  s.k = s.q = Matrix(5, unit(4, 1)), s.v = constant_rows(5, 1, 1);
  s.in["log_decay"] = constant_rows(5, 4, 0), s.in["omega"] = constant_rows(5, 1, 0);
  s.in["r"] = constant_rows(5, 1, 0.5), s.in["prior"] = {{1}};
  const Matrix o = read("iso_kdn", s);
  for (std::size_t t = 2; t < 5; ++t) EXPECT_LT(o[t][0] - o[t - 1][0], o[t - 1][0] - o[t - 2][0]);
}

}  // namespace crosstalk::checks::iso_kdn_test
