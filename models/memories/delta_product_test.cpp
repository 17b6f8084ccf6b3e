// DeltaProduct (Siems et al. 2025, arXiv 2502.10297): its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::delta_product_test {
namespace {

CROSSTALK_START(delta_product, decay, "mamba", 9.016, 0);

TEST(DeltaProductOracle, OneStepIsGatedDelta) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 1, -1, 0, 2), s.in["beta"] = uniform_rows(6, 1, 0, 2, 3);
  expect_close(read("delta_product", s), read("gated_delta", s));
}

TEST(DeltaProductOracle, StepsAreTokensOfALongerSequence) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 4, 3),
           steps = random_sequence(no_options(), 12, 4, 3, 4);
  s.k = unit_rows(s.k), s.in["beta"] = uniform_rows(12, 1, 0, 2, 5);
  s.in["log_decay"] = uniform_rows(4, 1, -1, 0, 6);
  steps.k = s.k, steps.v = s.v, steps.in["beta"] = s.in["beta"],
  steps.in["log_decay"] = constant_rows(12, 1, 0);
  for (std::size_t t = 0; t < 4; ++t) {
    steps.in["log_decay"][3 * t] = s.in["log_decay"][t];
    steps.q[3 * t + 2] = s.q[t];
  }
  const Matrix o = read("gated_delta", steps);
  expect_close(read("delta_product", s), Matrix{o[2], o[5], o[8], o[11]});
}

TEST(DeltaProductOracle, TwoReflectionsRotate) {
  const double angle = 0.4;
  Sequence s = random_sequence(no_options(), 1, 2, 2, 7, 2);
  s.k = {unit(2, 0), Vector{std::cos(angle / 2), std::sin(angle / 2)}}, s.v = zeros(2, 2);
  s.in["beta"] = {{2}, {2}}, s.in["s0"] = {unit(2, 0), unit(2, 1)};
  const double c = std::cos(angle), d = std::sin(angle);  // H_1 H_2 turns back by the angle
  const Vector& q = s.q[0];
  expect_close(read("delta_product", s)[0], Vector{c * q[0] + d * q[1], -d * q[0] + c * q[1]});
}

}  // namespace
}  // namespace crosstalk::checks::delta_product_test
