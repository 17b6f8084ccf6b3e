// Gated DeltaNet-2 (arXiv 2605.22791): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::gated_delta2_test {

CROSSTALK_HALF_LIFE(gated_delta2, 11.85);

// Eight tokens write one feature of a value each, all at one key: v_t = e_t, and all of them shall be held.
Sequence eight_features(std::uint64_t seed) {
  Sequence s = random_sequence(no_options(), 8, 4, 8, seed);
  s.k = s.q = Matrix(8, unit(4, 0));
  for (int t = 0; t < 8; ++t) s.v[static_cast<std::size_t>(t)] = unit(8, t);
  s.in["log_decay"] = constant_rows(8, 4, 0);
  return s;
}
double squared_error_of_ones(const Vector& o) {
  double sum = 0;
  for (const double e : o) sum += (e - 1) * (e - 1) / static_cast<double>(o.size());
  return sum;
}

// One rate for both takes out what it adds: features sum to 1 - prod(1 - beta) <= 1, so the error is at least (7/8)^2.
TEST(GatedDelta2Oracle, TiedGatesCannotWriteFeatureByFeature) {
  Sequence s = eight_features(5);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    s.in["beta"] = uniform_rows(8, 1, 0, 1, seed);
    EXPECT_GE(squared_error_of_ones(read("kda", s)[7]), 49.0 / 64);
  }
  for (int t = 0; t < 8; ++t)
    s.in["beta"][static_cast<std::size_t>(t)] = {1.0 / (t + 1)};  // the best there is
  EXPECT_NEAR(squared_error_of_ones(read("kda", s)[7]), 49.0 / 64, 1e-12);
}

TEST(GatedDelta2Oracle, GatesOfTheirOwnCan) {
  Sequence s = eight_features(6);
  s.in["erase_gate"] = constant_rows(8, 4, 0), s.in["write_gate"] = constant_rows(8, 8, 1);
  EXPECT_EQ(squared_error_of_ones(read("gated_delta2", s)[7]), 0);
  // Nor does it matter what else a token brings: its write gate lets through one feature.
  s.v = constant_rows(8, 8, 1);
  for (int t = 0; t < 8; ++t) s.in["write_gate"][static_cast<std::size_t>(t)] = unit(8, t);
  EXPECT_EQ(squared_error_of_ones(read("gated_delta2", s)[7]), 0);
}

}  // namespace crosstalk::checks::gated_delta2_test
