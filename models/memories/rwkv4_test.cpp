// RWKV-4 (Peng et al. 2023, arXiv 2305.13048): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::rwkv4_test {

CROSSTALK_HALF_LIFE(rwkv4, 0.938);  // ln 2 e^{-w}: 1.88 at w = -1; 320 draws of a w that spans e^8
CROSSTALK_START(rwkv4, start, "ramps", 0.7896, 0);

Sequence sequence(int T, int V, double bonus) {
  Sequence s = random_sequence(no_options(), T, V, V, 1);
  s.in["log_decay"] = uniform_rows(1, V, -1, 0, 5), s.in["bonus"] = constant_rows(1, V, bonus);
  return s;
}

TEST(Rwkv4Oracle, AHugeBonusReadsTheTokenItself) {
  const Sequence s = sequence(5, 3, 1000);
  expect_close(read("rwkv4", s), s.v);
}

TEST(Rwkv4Oracle, AnAverageOfOneValueIsThatValue) {
  Sequence s = sequence(5, 3, 0.3);
  s.v = Matrix(5, s.v[0]);
  expect_close(read("rwkv4", s), s.v);
}

// Nothing fades, one channel: the softmax of k over the tokens so far, whatever constant is added to k.
TEST(Rwkv4Oracle, WithoutDecayIsASoftmaxOfKeys) {
  Sequence s = sequence(5, 1, 0);
  s.in["log_decay"] = {{0}};
  Matrix want;
  for (int t = 0; t < 5; ++t) {
    Vector logits;
    for (int j = 0; j <= t; ++j) logits.push_back(s.key(j)[0]);
    want.push_back(softmax_average(logits, s.v, 0, 1));
  }
  for (Vector& k : s.k) k[0] += 5000;
  expect_close(read("rwkv4", s), want);
}

}  // namespace crosstalk::checks::rwkv4_test
