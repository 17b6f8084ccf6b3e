// DeltaProduct (Siems et al. 2025, arXiv 2502.10297): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::delta_product_test {

CROSSTALK_START(delta_product, decay, "mamba", 9.016, 0);

TEST(DeltaProductOracle, TwoReflectionsRotate) {
  const double angle = 0.4;
  Sequence s = random_sequence(no_options(), 1, 2, 2, 7, 2);
  s.k = {unit(2, 0), Vector{std::cos(angle / 2), std::sin(angle / 2)}}, s.v = zeros(2, 2);
  s.in["beta"] = {{2}, {2}}, s.in["s0"] = {unit(2, 0), unit(2, 1)};
  const double c = std::cos(angle), d = std::sin(angle);  // H_1 H_2 turns back by the angle
  const Vector& q = s.q[0];
  expect_close(read("delta_product", s)[0], Vector{c * q[0] + d * q[1], -d * q[0] + c * q[1]});
}

}  // namespace crosstalk::checks::delta_product_test
