// Erase-then-Delta Attention (Li et al. 2026, arXiv 2606.26560): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::erase_then_delta_test {

Sequence sequence(int T, double gamma) {
  Sequence s = random_sequence(no_options(), T, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(T, 4, -1, 0, 2), s.in["beta"] = uniform_rows(T, 1, 0, 1, 3);
  s.in["erase_key"] = unit_rows(normal_rows(T, 4, 4)), s.in["gamma"] = constant_rows(T, 1, gamma);
  return s;
}

TEST(EraseThenDeltaOracle, WithoutErasingIsKda) {
  const Sequence s = sequence(6, 0);
  expect_close(read("erase_then_delta", s), read("kda", s));
}

TEST(EraseThenDeltaOracle, ErasesElsewhereThanItWrites) {
  Sequence s = sequence(3, 0.75);
  s.k = {unit(4, 0), unit(4, 1), unit(4, 2)}, s.q = {unit(4, 0), unit(4, 0), unit(4, 1)};
  s.in["erase_key"] = {unit(4, 3), unit(4, 0), unit(4, 0)};
  s.in["beta"] = constant_rows(3, 1, 1), s.in["log_decay"] = zeros(3, 4);
  expect_close(read("erase_then_delta", s), Matrix{s.v[0], scaled(0.25, s.v[0]), s.v[1]});
}

// What a token writes it does not erase: the delta rule comes last.
TEST(EraseThenDeltaOracle, ErasesBeforeItWrites) {
  Sequence s = sequence(6, 1);
  s.q = s.k, s.in["erase_key"] = s.k, s.in["beta"] = constant_rows(6, 1, 1);
  expect_close(read("erase_then_delta", s), s.v);
}

}  // namespace crosstalk::checks::erase_then_delta_test
