// Short convolutions against a matrix of weights over all tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/short_conv.h"

#include <tuple>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::short_conv_test {
namespace {

struct Shape {
  int B = 2, T = 7, C = 3, W = 4;
  bool silu = false, gated = false;  ///< gated: with a bias too
};

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("x", {s.B, s.T, s.C}, normal()).input("w", {s.C, s.W}, normal());
  if (s.gated) op.input("bias", {s.C}, normal()).input("gate", {s.B, s.T, s.C}, normal());
  op.output("y", {s.B, s.T, s.C});
  op.workspace("part", {ShortConv<float>::pieces(s.B * s.T), s.C, s.W + 1});
  call<ShortConv>(op, [s](auto& o) { o.silu = s.silu; });
  op.oracle([s](const Values& in, Values& out) {
    for (int n = 0; n < s.B * s.T * s.C; ++n) {
      const int c = n % s.C, t = n / s.C % s.T, b = n / s.C / s.T;
      const auto at = static_cast<std::size_t>(n);
      long double sum = s.gated ? in["bias"][c] : 0;
      for (int j = 0; j < s.T; ++j) {
        const int tap = s.W - 1 - (t - j);  // of the token j of all tokens
        if (j > t || tap < 0) continue;
        sum += static_cast<long double>(in["w"][c * s.W + tap]) * in["x"][(b * s.T + j) * s.C + c];
      }
      if (s.gated) sum = sum * in["gate"][at] + in["x"][at];
      out.real["y"].push_back(static_cast<double>(s.silu ? sum / (1 + std::exp(-sum)) : sum));
    }
  });
  return op.roundings(s.W + 6 + s.B * s.T / 4).condition(3).gradient_elements(60);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const auto& [word, silu, gated] :
       {std::tuple{"Plain", false, false}, {"Silu", true, false}, {"Gated", false, true}}) {
    const auto add = [&, silu = silu, gated = gated](const std::string& name, Shape shape) {
      shape.silu = silu, shape.gated = gated;
      all.push_back(make(name, shape));
    };
    add(word, {2, 7, 3, 4});
    add(word + std::string("Ones"), {1, 1, 1, 1});
    add(word + std::string("WiderThanLong"), {2, 2, 3, 5});
    add(word + std::string("Two"), {2, 7, 5, 2});
    add(word + std::string("ManyTaps"), {2, 9, 5, 7});
    add(word + std::string("Pieces"), {3, 71, 37, 3});
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(ShortConv, OpCheck, ::testing::ValuesIn(cases()), case_name);

TEST(ShortConvTest, TheLastWeightIsTheTokensOwn) {
  const OpCase op = make("Own", {1, 3, 1, 2, false});
  TensorSet<double> set;
  op.fill(set, {0});
  const double x[] = {1, 10, 100}, w[] = {2, 3}, want[] = {3, 32, 320};
  std::copy_n(x, 3, set.real("x").at(0)), std::copy_n(w, 2, set.real("w").at(0));
  op.run_forward({}, set);
  EXPECT_TRUE(close("y", set.real("y").at(0), want, 3, 0));
}

}  // namespace
}  // namespace crosstalk::checks::short_conv_test
