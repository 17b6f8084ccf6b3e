// Short convolutions against a matrix of weights over all tokens.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/short_conv.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::short_conv_test {
namespace {

struct Shape {
  int B = 2, T = 7, C = 3, W = 4;
  bool silu = false;
};

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("x", {s.B, s.T, s.C}, normal()).input("w", {s.C, s.W}, normal()).output("y", {s.B, s.T, s.C});
  op.workspace("part", {ShortConv<float>::pieces(s.B * s.T), s.C, s.W});
  call<ShortConv>(op, [s](auto& o) { o.silu = s.silu; });
  op.oracle([s](const Values& in) {
    Values out;
    for (int n = 0; n < s.B * s.T * s.C; ++n) {
      const int c = n % s.C, t = n / s.C % s.T, b = n / s.C / s.T;
      long double sum = 0;
      for (int j = 0; j < s.T; ++j) {
        const int tap = s.W - 1 - (t - j);  // of the token j of all tokens
        if (j > t || tap < 0) continue;
        sum += static_cast<long double>(in["w"][static_cast<std::size_t>(c * s.W + tap)]) *
               in["x"][static_cast<std::size_t>((b * s.T + j) * s.C + c)];
      }
      out.real["y"].push_back(static_cast<double>(s.silu ? sum / (1 + std::exp(-sum)) : sum));
    }
    return out;
  });
  return op.roundings(s.W + 6 + s.B * s.T / 4).condition(3).gradient_elements(60);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const bool silu : {false, true}) {
    const std::string word = silu ? "Silu" : "Plain";
    all.push_back(make(word, {2, 7, 3, 4, silu}));
    all.push_back(make(word + "Ones", {1, 1, 1, 1, silu}));
    all.push_back(make(word + "WiderThanLong", {2, 2, 3, 5, silu}));
    all.push_back(make(word + "Two", {2, 7, 5, 2, silu}));
    all.push_back(make(word + "Pieces", {3, 71, 37, 3, silu}));
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
