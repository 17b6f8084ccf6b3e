// Delays and the last tokens against rows that change places.
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

OpCase last(const std::string& name, int B, int S, int T, int tokens) {
  constexpr int H = 2, N = 3;
  OpCase op(name);
  op.input("x", {B, T, H, N}, normal()).output("y", {B, tokens, H, N});
  op.optional(S > 0, "start", {B, S, H, N}, normal());
  call<Recent>(op, [=](auto& recent) { recent.tokens = tokens; });
  op.oracle([=](const Values& in, Values& out) {
    constexpr std::ptrdiff_t row = H * N;
    for (int b = 0; b < B; ++b) {
      Numbers all(static_cast<std::size_t>(tokens * row), 0.0);
      if (S > 0)
        all.insert(all.end(), in["start"].begin() + b * S * row, in["start"].begin() + (b + 1) * S * row);
      all.insert(all.end(), in["x"].begin() + b * T * row, in["x"].begin() + (b + 1) * T * row);
      out.real["y"].insert(out.real["y"].end(), all.end() - tokens * row, all.end());
    }
  });
  return op;
}

INSTANTIATE_TEST_SUITE_P(Recent, OpCheck,
                         ::testing::Values(last("Joined", 2, 3, 5, 8), last("Cut", 3, 3, 5, 6),
                                           last("OfXAlone", 2, 3, 5, 4), last("Padded", 2, 0, 2, 5),
                                           last("PaddedStart", 2, 2, 3, 7)),
                         case_name);

}  // namespace
}  // namespace crosstalk::checks::delay_test
