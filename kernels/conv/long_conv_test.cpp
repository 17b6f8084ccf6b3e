// Long convolutions against the products of two polynomials.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/long_conv.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::long_conv_test {
namespace {

OpCase make(const std::string& name, int B, int T, int C, int L) {
  OpCase op(name);
  op.input("x", {B, T, C}, normal()).input("h", {L, C}, normal());
  op.output("y", {B, T, C});
  call_planned<LongConv>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    std::vector<long double> y(static_cast<std::size_t>(B * T * C), 0);
    for (int b = 0; b < B; ++b) {
      for (int i = 0; i < T; ++i) {
        for (int j = 0; i + j < T; ++j)
          for (int c = 0; c < C; ++c)
            y[(b * T + i + j) * C + c] +=
                static_cast<long double>(in["x"][(b * T + i) * C + c]) * in["h"][j * C + c];
      }
    }
    out.real["y"].assign(y.begin(), y.end());
  });
  return op.roundings(2.0 * B * T).condition(4).gradient_elements(60);
}

std::vector<OpCase> cases() {
  return {make("Small", 2, 5, 3, 5), make("LongerFilter", 2, 4, 3, 7), make("OneToken", 3, 1, 2, 1),
          make("Long", 2, 70, 5, 70), make("Wide", 1, 9, 130, 9),
          // Tiles of 16 tokens and parts of 64 sequences on a GPU.
          make("WholeTiles", 2, 48, 33, 64), make("CutTiles", 3, 33, 7, 50),
          make("ManySequences", 130, 17, 3, 18)};
}

INSTANTIATE_TEST_SUITE_P(LongConv, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::long_conv_test
