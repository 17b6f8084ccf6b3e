// Raven (fla/layers/raven.py): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::raven_test {

CROSSTALK_HALF_LIFE(raven, 14.161);

// A decay of -800 replaces what a slot holds; a router that picks one slot a token fills them in turn.
TEST(RavenOracle, ARouterOfOneSlotATokenIsSoftmaxAttention) {
  const Options one = option("selected", 1, option("slots", 5));
  Sequence s = random_sequence(one, 5, 4, 3, 1);
  s.in["log_decay"] = constant_rows(5, 1, -800);
  s.in["router"] = zeros(5, 5);
  for (std::size_t t = 0; t < 5; ++t) s.in["router"][t][t] = 3;
  const Matrix o = read("raven", s);
  expect_close(o[4], read("softmax", random_sequence(no_options(), 5, 4, 3, 1))[4], 1e-8);
}

TEST(RavenOracle, SlotsThatAreNotPickedStayAsTheyAre) {
  const Options one = option("selected", 1, option("slots", 2));
  Sequence s = random_sequence(one, 4, 3, 2, 2);
  s.in["log_decay"] = constant_rows(4, 1, -800);
  s.in["router"] = {{1, 0}, {0, 1}, {0, 1}, {0, 1}};
  s.k[0] = {50, 0, 0}, s.q[3] = {5, 0, 0}, s.k[3] = {0, 0, 0};
  expect_close(read("raven", s)[3], s.v[0], 1e-8);
}

}  // namespace crosstalk::checks::raven_test
