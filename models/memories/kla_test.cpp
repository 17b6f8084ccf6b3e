// Kalman Linear Attention (Shaj et al. 2026, arXiv 2602.10743): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::kla_test {

Sequence sequence(int T, double noise) {
  Sequence s = random_sequence(no_options(), T, 2, 3, 1);
  s.in["log_decay"] = constant_rows(1, 6, 0), s.in["noise"] = constant_rows(1, 6, noise);
  s.in["value_precision"] = uniform_rows(T, 3, 0.2, 2, 2);
  return s;
}

// Entry (v, k) regresses values on one channel of keys, with a ridge of 1.
TEST(KlaOracle, WithoutNoiseAndDecayIsARegressionOfEveryChannel) {
  const Sequence s = sequence(6, 0);
  Matrix sum = zeros(3, 2), precision = constant_rows(3, 2, 1), o;
  for (int t = 0; t < 6; ++t) {
    o.emplace_back(3, 0);
    for (std::size_t v = 0; v < 3; ++v)
      for (std::size_t k = 0; k < 2; ++k) {
        const double key = s.key(t)[k], sure = s.input("value_precision")[static_cast<std::size_t>(t)][v];
        sum[v][k] += sure * key * s.value(t)[v], precision[v][k] += sure * key * key;
        o.back()[v] += sum[v][k] / precision[v][k] * s.query(t)[k];
      }
  }
  expect_close(read("kla", s), o);
}

TEST(KlaOracle, AValueWithoutPrecisionMovesNothing) {
  Sequence s = sequence(4, 0);
  s.in["value_precision"][3] = Vector(3, 0), s.q[3] = s.q[2];
  const Matrix o = read("kla", s);
  expect_close(o[3], o[2]);
}

// Noise without bound forgets all that was before the token.
TEST(KlaOracle, GreatNoiseKeepsTheLastTokenAlone) {
  Sequence s = sequence(4, 1e12);
  const Matrix o = read("kla", s);
  Sequence last = sequence(4, 1e12);
  last.v[0] = last.v[1] = last.v[2] = Vector(3, 7);
  expect_close(read("kla", last)[3], o[3], 1e-9);
}

}  // namespace crosstalk::checks::kla_test
