// MesaNet (von Oswald et al. 2025, arXiv 2506.05233): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::mesa_test {

CROSSTALK_HALF_LIFE(mesa, 0.9962);

Sequence sequence(int T, int K, int V, std::uint64_t seed, double ridge) {
  Sequence s = random_sequence(no_options(), T, K, V, seed);
  s.in["beta"] = constant_rows(T, 1, 1), s.in["log_decay"] = constant_rows(T, 1, 0);
  s.in["ridge"] = constant_rows(1, K, ridge);
  return s;
}

// Keys that are not orthogonal, as many as there are: linear attention mixes them up, the regression does
// not.
TEST(MesaOracle, IndependentKeysAreRecalledAsTheRidgeVanishes) {
  Sequence s = sequence(4, 4, 3, 3, 1e-9);
  s.q = s.k;
  for (int t = 0; t < 4; ++t) s.q[static_cast<std::size_t>(t)] = s.k[0];
  expect_close(read("mesa", s), Matrix(4, s.v[0]), 1e-6);
}

}  // namespace crosstalk::checks::mesa_test
