// Comba (Hu et al. 2025, arXiv 2506.02475): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::comba_test {
namespace {

CROSSTALK_HALF_LIFE(comba, 12.32);
CROSSTALK_START(comba, rate_from, "0", 11.18, 0);

TEST(CombaOracle, ErasingWithTheDecayedKeyIsGatedDelta) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, 2), s.in["beta"] = uniform_rows(6, 1, 0, 1, 3);
  s.in["erase_key"] = s.k;
  const Options undecayed = option("predict", "undecayed");
  expect_close(read("comba", s), read("gated_delta", with_options(s, undecayed)));
  for (int t = 0; t < 6; ++t) {
    Vector& p = s.in["erase_key"][static_cast<std::size_t>(t)];
    p = scaled(std::exp(s.number("log_decay", t)), p);
  }
  expect_close(read("comba", s), read("gated_delta", s));
}

// As its authors' kernels: q - d p of q and p as they are, then key, feedback key and query of length 1.
TEST(CombaOracle, LengthsAfterAreThoseOfTheCorrectedQuery) {
  const Options plain = option("key_norm", "none"), later = option("lengths", "after", plain);
  Sequence s = random_sequence(plain, 5, 4, 3, 4);
  s.in["log_decay"] = uniform_rows(5, 1, -1, 0, 5), s.in["beta"] = constant_rows(5, 1, 0.5);
  s.in["erase_key"] = normal_rows(5, 4, 6), s.in["correction"] = {{0.3}};
  const Sequence after = with_options(s, later);
  for (std::size_t t = 0; t < 5; ++t) s.q[t] = plus(s.q[t], -0.3, s.in["erase_key"][t]);
  s.q = unit_rows(s.q), s.k = unit_rows(s.k), s.in["erase_key"] = unit_rows(s.in["erase_key"]);
  s.in.erase("correction");
  expect_close(read("comba", after), read("comba", s), 1e-5);
}

TEST(CombaOracle, TheCorrectionMovesTheQuery) {
  Sequence s = random_sequence(no_options(), 5, 4, 3, 4);
  s.in["log_decay"] = uniform_rows(5, 1, -1, 0, 5), s.in["beta"] = constant_rows(5, 1, 0.5);
  s.in["erase_key"] = normal_rows(5, 4, 6), s.in["correction"] = {{0.3}};
  const Matrix o = read("comba", s);
  for (std::size_t t = 0; t < 5; ++t) s.q[t] = plus(s.q[t], -0.3, s.in["erase_key"][t]);
  s.in.erase("correction");
  expect_close(read("comba", s), o);
}

}  // namespace
}  // namespace crosstalk::checks::comba_test
