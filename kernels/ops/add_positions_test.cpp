// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/add_positions.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

OpCase make(const std::string& name, int B, int T, int n, int D) {
  OpCase op(name);
  op.input("x", {B, T, D}, normal()).input("table", {n, D}, normal()).output("y", {B, T, D});
  call<AddPositions>(op, [](auto&) {});
  op.oracle([=](const Values& in) {
    Values out;
    for (int b = 0; b < B; ++b) {
      for (int t = 0; t < T; ++t) {
        for (int i = 0; i < D; ++i)
          out.real["y"].push_back(in["x"][static_cast<std::size_t>((b * T + t) * D + i)] +
                                  in["table"][static_cast<std::size_t>(t * D + i)]);
      }
    }
    return out;
  });
  return op.roundings(B + 1);
}

std::vector<OpCase> cases() {
  return {make("One", 1, 1, 1, 1), make("Whole", 3, 4, 4, 5), make("Shorter", 3, 4, 7, 5),
          make("Many", 33, 5, 6, 31).gradient_elements(60)};
}

INSTANTIATE_TEST_SUITE_P(AddPositions, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
