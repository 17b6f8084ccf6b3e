// Diagonal plus low rank, the form that holds RWKV-7 and the delta rules: its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::dplr_test {

CROSSTALK_HALF_LIFE(dplr, 2.293);

TEST(DplrOracle, WithoutTheLowRankPartIsGla) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 2), s.in["a"] = zeros(6, 4), s.in["b"] = normal_rows(6, 4, 3);
  expect_close(read("dplr", s), read("gla", s));
}

TEST(DplrOracle, HoldsRwkv7AndKda) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 4), written = s;
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 4, -0.6, 0, 5), s.in["beta"] = uniform_rows(6, 1, 0, 1, 6);
  s.in["erase_key"] = unit_rows(normal_rows(6, 4, 7)), s.in["in_context_rate"] = uniform_rows(6, 4, 0, 1, 8);
  const Matrix rwkv7 = read("rwkv7", s), kda = read("kda", s);
  for (int t = 0; t < 6; ++t) {
    s.in["a"].push_back(scaled(-1, s.row("erase_key", t)));
    s.in["b"].push_back(elementwise(s.row("in_context_rate", t), s.row("erase_key", t)));
  }
  expect_close(read("dplr", s), rwkv7);
  for (int t = 0; t < 6; ++t) {
    const auto row = static_cast<std::size_t>(t);
    s.in["a"][row] = scaled(-1, elementwise(exponential(s.row("log_decay", t)), s.key(t)));
    s.in["b"][row] = s.k[row] = scaled(s.number("beta", t), s.key(t));
  }
  expect_close(read("dplr", s), kda);
}

}  // namespace crosstalk::checks::dplr_test
