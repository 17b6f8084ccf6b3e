// Turns against products of complex numbers.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/turn.h"

#include <algorithm>
#include <complex>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::turn_test {
namespace {

OpCase make(const std::string& name, int B, int N, int H, int K, int A) {
  OpCase op(name);
  op.input("x", {B, N, H, K}, normal()).input("angle", {B, N, H, A}, normal(2));
  op.output("y", {B, N, H, K});
  call<Turn>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    Numbers& y = out.real["y"] = in["x"];
    for (int row = 0; row < B * N * H; ++row) {
      for (int c = 0; c < std::min(A, K / 2); ++c) {
        const auto at = static_cast<std::size_t>(row * K + 2 * c);
        const auto z = std::complex<long double>(y[at], y[at + 1]) *
                       std::polar(1.0L, static_cast<long double>(in["angle"][row * A + c]));
        y[at] = static_cast<double>(z.real()), y[at + 1] = static_cast<double>(z.imag());
      }
    }
  });
  return op.roundings(60).condition(2).gradient_elements(100);
}

std::vector<OpCase> cases() {
  return {make("AllPairs", 2, 5, 2, 6, 3), make("SomePairs", 2, 5, 2, 7, 2),
          make("FewerPairs", 2, 3, 1, 3, 4), make("OnePair", 1, 1, 1, 2, 1), make("Wide", 2, 37, 3, 130, 40)};
}

INSTANTIATE_TEST_SUITE_P(Turn, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::turn_test
