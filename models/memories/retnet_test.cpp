// RetNet's retention (Sun et al. 2023, arXiv 2307.08621): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::retnet_test {

CROSSTALK_HALF_LIFE(retnet, 21.83);

TEST(RetnetOracle, AWriteFadesByAlphaAToken) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.k = Matrix(4, unit(4, 1)), s.k[0] = unit(4, 0), s.q = Matrix(4, unit(4, 0));
  s.in["log_decay"] = {{std::log(0.5)}};
  expect_close(read("retnet", s)[3], scaled(0.125, s.v[0]));
}

}  // namespace crosstalk::checks::retnet_test
