// Memory Mosaics (Zhang et al. 2024, arXiv 2405.06394): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::memory_mosaics_test {

CROSSTALK_HALF_LIFE(memory_mosaics, 1.386);

TEST(MemoryMosaicsOracle, WithoutALeakItIsStrictSoftmaxOfDirections) {
  const Options strict = option("strict", true), sharp = option("scale", 3.0, strict);
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.q = unit_rows(s.q), s.k = unit_rows(s.k);
  s.in["log_decay"] = {{-800}}, s.in["sharpness"] = {{3}};
  expect_close(read("memory_mosaics", s), read("softmax", with_options(s, sharp)));
}

// The next token repeats the last but two: what followed it then is what it reads, if contexts are sharp.
TEST(MemoryMosaicsOracle, PredictsWhatFollowedTheSameContext) {
  Sequence s = random_sequence(no_options(), 6, 3, 3, 2);
  for (std::size_t t = 0; t < 6; ++t) s.k[t] = s.q[t] = unit(3, static_cast<int>(t % 3));
  s.in["log_decay"] = {{-3}}, s.in["sharpness"] = {{400}};
  expect_close(read("memory_mosaics", s)[5], s.v[2], 1e-9);
  expect_close(read("memory_mosaics", s)[0], Vector(3, 0));
}

}  // namespace crosstalk::checks::memory_mosaics_test
