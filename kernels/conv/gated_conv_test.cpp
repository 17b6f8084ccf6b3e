// Gated convolutions against a matrix of weights over all tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/gated_conv.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::gated_conv_test {
namespace {

OpCase make(const std::string& name, int B, int T, int C, int W) {
  OpCase op(name);
  op.input("x", {B, T, C}, normal()).input("w", {C, W}, normal()).input("bias", {C}, normal());
  op.input("gate", {B, T, C}, normal()).output("y", {B, T, C});
  op.workspace("part", {GatedConv<float>::pieces(B * T), C, W + 1});
  call<GatedConv>(op, [](auto&) {});
  op.oracle([=](const Values& in) {
    Values out;
    for (int n = 0; n < B * T * C; ++n) {
      const int c = n % C, t = n / C % T, b = n / C / T;
      long double sum = in["bias"][static_cast<std::size_t>(c)];
      for (int j = 0; j <= t; ++j) {
        const int tap = W - 1 - (t - j);
        if (tap < 0) continue;
        sum += static_cast<long double>(in["w"][static_cast<std::size_t>(c * W + tap)]) *
               in["x"][static_cast<std::size_t>((b * T + j) * C + c)];
      }
      const auto at = static_cast<std::size_t>(n);
      out.real["y"].push_back(static_cast<double>(sum * in["gate"][at] + in["x"][at]));
    }
    return out;
  });
  return op.roundings(W + 4 + B * T / 4).condition(3).gradient_elements(60);
}

std::vector<OpCase> cases() {
  return {make("Plain", 2, 7, 3, 3), make("Ones", 1, 1, 1, 1), make("WiderThanLong", 2, 2, 3, 5),
          make("ManyTaps", 2, 9, 5, 7), make("Pieces", 3, 71, 37, 3)};
}

INSTANTIATE_TEST_SUITE_P(GatedConv, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::gated_conv_test
