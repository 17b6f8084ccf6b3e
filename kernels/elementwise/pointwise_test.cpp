// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pointwise.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

OpCase point(const std::string& name, PointMap map, double scale, double shift, std::vector<int> dims) {
  OpCase op(name);
  op.input("x", dims, normal(2)).output("y", dims);
  call<Pointwise>(op, [=](auto& o) { o.map = map, o.scale = scale, o.shift = shift; });
  op.oracle([=](const Values& in) {
    Values out;
    for (long double x : in["x"]) {
      const long double y = map == PointMap::affine ? scale * x + shift : scale / 2 * (1 + std::tanh(x / 2));
      out.real["y"].push_back(static_cast<double>(y));
    }
    return out;
  });
  return op.roundings(8).gradient_elements(200);
}

OpCase erase(const std::string& name, int B, int T) {
  OpCase op(name);
  op.input("a", {B, T}, normal()).input("b", {B, T}, uniform(0.5, 3)).output("y", {B, T});
  op.edit("b", [=](int, Numbers& b) {  // z_0.k_1 = 0
    for (int i = 0; i < B; ++i) b[static_cast<std::size_t>(i * T)] = 0;
  });
  call<EraseRatio>(op, [](auto&) {});
  op.oracle([=](const Values& in) {
    Values out;
    for (std::size_t i = 0; i < in["a"].size(); ++i)
      out.real["y"].push_back(i % static_cast<std::size_t>(T) == 0 ? 0 : in["a"][i] / in["b"][i]);
    return out;
  });
  return op.roundings(4).condition(4);
}

OpCase divide(const std::string& name, int N, int D, double eps, double low) {
  OpCase op(name);
  op.input("a", {N, D}, normal()).input("b", {N}, uniform(low, 3)).output("y", {N, D});
  call<RowDivide>(op, [=](auto& o) { o.eps = eps; });
  op.oracle([=](const Values& in) {
    Values out;
    for (int i = 0; i < N * D; ++i)
      out.real["y"].push_back(in["a"][static_cast<std::size_t>(i)] /
                              (in["b"][static_cast<std::size_t>(i / D)] + eps));
    return out;
  });
  return op.roundings(D + 4).condition(4).gradient_elements(200);
}

std::vector<OpCase> cases() {
  return {point("Sigmoid", PointMap::sigmoid, 1, 0, {4, 7}),
          point("SigmoidTwice", PointMap::sigmoid, 2, 0, {4, 7}),
          point("SigmoidLarge", PointMap::sigmoid, 1, 0, {40, 77}),
          point("SigmoidFarOut", PointMap::sigmoid, 2, 0, {4, 6})
              .edit("x",
                    [](int, Numbers& x) {
                      for (std::size_t i = 0; i < x.size(); ++i)
                        x[i] += i % 3 == 0 ? -800 : i % 3 == 1 ? 800 : 0;
                    }),
          point("SigmoidScalar", PointMap::sigmoid, 1, 0, {1}),
          point("OneMinus", PointMap::affine, -1, 1, {4, 7}),
          point("Affine", PointMap::affine, 0.5, -3, {3, 2, 5}),
          erase("EraseRatio", 4, 7),
          erase("EraseRatioOneToken", 4, 1),
          divide("RowDivide", 5, 7, 0, 0.5),
          divide("RowDivideEps", 5, 7, 0.75, 0),
          divide("RowDivideOneColumn", 5, 1, 1e-6, 0.5),
          divide("RowDivideWide", 37, 67, 1e-6, 0.5)};
}

INSTANTIATE_TEST_SUITE_P(Pointwise, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
