// RWKV-6, Finch (Peng et al. 2024, arXiv 2404.05892): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/ramps.h"
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rwkv6_test {
namespace {

CROSSTALK_HALF_LIFE(rwkv6, 24.5);
CROSSTALK_START(rwkv6, start, "ramps", 13.33, 0);

// Width 64, heads of 16, layer 0 of 2 (published: 2.2, 4.8, 13.3, 45, 154); neighbours of 64 channels differ
// by 8 %.
TEST(Rwkv6Gates, StartWithTheHalfLivesOfTheirSource) {
  const auto started = [](const char* start, double depth) {
    return decay_start(
        input_at_start("rwkv6", "log_decay", {{"memory.start", std::string(start)}}, 4, 16, depth, 1), true);
  };
  const DecayStart first = started("ramps", 0);
  const double shares[] = {0.05, 0.25, 0.5, 0.75, 0.95}, lives[] = {2.2, 4.8, 13.3, 45, 154};
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(first.quantile(shares[i]), lives[i], 0.07 * lives[i]) << shares[i];
  EXPECT_GT(started("ramps", 1).median(), 2 * first.median());
}

// ramp + 0.1 ((n + 1) % 3 - 1), the ramp r (1 - n / (N - 1)).
TEST(Rwkv6Gates, BonusStartsAsARampWithAZigzag) {
  const auto bonus = [](double depth) { return rwkv6_starts(64, depth).bonus; };
  EXPECT_NEAR(bonus(0)[0], 0, 1e-15);
  EXPECT_NEAR(bonus(0)[1], 0.1, 1e-15);
  EXPECT_NEAR(bonus(0)[2], -0.1, 1e-15);
  EXPECT_NEAR(bonus(1)[0], 1, 1e-15);
  EXPECT_NEAR(bonus(1)[63], 0, 1e-15);
  EXPECT_NEAR(bonus(0.5)[61], 0.5 * 2 / 63 + 0.1, 1e-15);
}

TEST(Rwkv6Oracle, BonusOneWithoutDecayIsLinearAttention) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["bonus"] = constant_rows(1, 4, 1), s.in["log_decay"] = constant_rows(6, 4, 0);
  expect_close(read("rwkv6", s), read("linear_attention", s));
}

TEST(Rwkv6Oracle, WithoutBonusATokenDoesNotSeeItself) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.in["bonus"] = constant_rows(1, 4, 0), s.in["log_decay"] = constant_rows(4, 4, -1);
  const Matrix o = read("rwkv6", s);
  expect_close(o[0], Vector(3, 0));
  expect_close(o[1], scaled(dot(s.k[0], s.q[1]), s.v[0]));  // a decay after the read: none so far
  s.k[3] = Vector(4, 9), s.v[3] = Vector(3, 9), s.in["log_decay"][3] = Vector(4, -9);
  expect_close(read("rwkv6", s)[3], o[3]);
}

}  // namespace
}  // namespace crosstalk::checks::rwkv6_test
