// Delays against rows that change places.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/delay.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::delay_test {
namespace {

OpCase make(const std::string& name, int B, int T, int H, int N, bool start) {
  OpCase op(name);
  op.input("x", {B, T, H, N}, normal()).output("y", {B, T, H, N});
  op.optional(start, "start", {B, H, N}, normal());
  call<Delay>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    Numbers& y = out.real["y"];
    const auto row = static_cast<std::ptrdiff_t>(H * N);
    for (int b = 0; b < B; ++b) {
      if (start) {
        y.insert(y.end(), in["start"].begin() + b * row, in["start"].begin() + (b + 1) * row);
      } else {
        y.insert(y.end(), static_cast<std::size_t>(row), 0.0);
      }
      y.insert(y.end(), in["x"].begin() + b * T * row, in["x"].begin() + (b * T + T - 1) * row);
    }
  });
  return op;
}

std::vector<OpCase> cases() {
  return {make("Rows", 2, 5, 2, 3, false), make("Start", 3, 4, 1, 5, true),
          make("OneToken", 2, 1, 2, 2, true), make("Wide", 2, 33, 3, 40, true)};
}

INSTANTIATE_TEST_SUITE_P(Delay, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::delay_test
