// RWKV-7, Goose (Peng et al. 2025, arXiv 2503.14456): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rwkv7_test {
namespace {

CROSSTALK_HALF_LIFE(rwkv7, 15.07);
CROSSTALK_START(rwkv7, start, "constants", 2.286, 0);

// Width 64, heads of 16, layer 0 of 2 (published: 1.4, 16.8, 743; layer 1: median 55).
TEST(Rwkv7Gates, StartWithTheHalfLivesOfTheirSource) {
  const DecayStart first = decay_start(input_at_start("rwkv7", "log_decay", {}, 4, 16, 0, 1), true),
                   last = decay_start(input_at_start("rwkv7", "log_decay", {}, 4, 16, 1, 1), true);
  EXPECT_NEAR(first.quantile(0.05), 1.4, 0.1);
  EXPECT_NEAR(first.median(), 16.8, 1);
  EXPECT_NEAR(first.quantile(0.95), 743, 75);
  EXPECT_NEAR(last.median(), 55, 5);
  const DecayStart old =
      decay_start(input_at_start("rwkv7", "log_decay", {{"memory.start", "constants"}}, 4, 16, 0, 1), true);
  EXPECT_NEAR(old.median(), 2.29, 0.01);
}

TEST(Rwkv7Oracle, RateZeroIsGla) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 2);
  s.in["erase_key"] = unit_rows(normal_rows(6, 4, 3)), s.in["in_context_rate"] = constant_rows(6, 4, 0);
  expect_close(read("rwkv7", s), read("gla", s));
}

TEST(Rwkv7Oracle, EqualRatesWithoutDecayAreTheDeltaRule) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 4);
  s.k = unit_rows(s.k);
  s.in["beta"] = uniform_rows(6, 1, 0, 1, 5);
  const Matrix o = read("delta", s);
  s.in["log_decay"] = constant_rows(6, 4, 0), s.in["erase_key"] = s.k;
  s.in["in_context_rate"] = s.in["beta"];
  for (Vector& rate : s.in["in_context_rate"]) rate = Vector(4, rate[0]);
  for (int t = 0; t < 6; ++t) {
    Vector& k = s.k[static_cast<std::size_t>(t)];
    k = scaled(s.number("beta", t), k);
  }
  expect_close(read("rwkv7", s), o);
}

}  // namespace
}  // namespace crosstalk::checks::rwkv7_test
