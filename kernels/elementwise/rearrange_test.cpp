// What chooses, places or makes numbers: the largest of a row, two dimensions that change places, constants, one-hot rows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/rearrange.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::rearrange_test {
namespace {

OpCase swap_case() {
  OpCase op("Swap");
  op.input("x", {2, 3, 4, 5}, normal()).output("y", {2, 4, 3, 5});
  call<Swap>(op, [=](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    for (int a = 0; a < 2; ++a)
      for (int c = 0; c < 4; ++c)
        for (int b = 0; b < 3; ++b)
          for (int d = 0; d < 5; ++d)
            out.real["y"].push_back(in["x"][static_cast<std::size_t>(((a * 3 + b) * 4 + c) * 5 + d)]);
  });
  return op;
}

/// No two numbers of 150 nearer than .03: the maximum has a kink where the two largest are equal.
void far_apart(int, Numbers& x) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 0.03 * static_cast<double>(i % 150 * 37 % 150) - 2;
}

OpCase maximum_case(const std::string& name, const std::vector<int>& x, const std::vector<int>& y,
                    int columns) {
  OpCase op(name);
  op.input("x", x, normal()).output("y", y);
  call<Maximum>(op, [=](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    for (auto row = in["x"].begin(); row != in["x"].end(); row += columns)
      out.real["y"].push_back(*std::max_element(row, row + columns));
  });
  return op;
}

// Where several are equally large, the gradient goes to the first of them alone.
TEST(Maximum, TheFirstOfEquallyLargeOnesHasTheGradient) {
  double x[] = {1, 3, 3, -1, 2, 2, 2, 2}, gradient[8] = {}, y[2] = {}, of_y[2] = {5, 7};
  Maximum<double> op;
  op.x.value = shaped<double>(1, {2, 4}), op.x.gradient = op.x.value, op.x.write = Write::overwrite;
  op.x.value.data = x, op.x.gradient.data = gradient;
  op.plan();
  op.y.gradient = op.y.value;
  op.y.value.data = y, op.y.gradient.data = of_y;
  forward_cpu({}, op);
  backward_cpu({}, op);
  EXPECT_THAT(y, ::testing::ElementsAre(3, 2));
  EXPECT_THAT(gradient, ::testing::ElementsAre(0, 5, 0, 0, 7, 0, 0, 0));
}

OpCase constant_case() {
  OpCase op("Constant");
  op.output_without_gradient("y", {1, 1, 3, 1});
  call<Constant>(op, [=](auto& o) { o.number[0] = -0.5, o.number[1] = 2, o.number[2] = 1e-3; });
  op.backward(nullptr);  // it has no input
  op.oracle([](const Values&, Values& out) { out.real["y"] = {-0.5, 2, 1e-3}; });
  return op;
}

OpCase one_hot_case() {
  OpCase op("OneHot");
  op.integers("ids", {4, 3, 2}, integer_in(-1, 4)).output_without_gradient("y", {4, 3, 1, 5});
  call<OneHot>(op, [=](auto& o) { o.channel = 1; });
  op.backward(nullptr);
  op.oracle([=](const Values& in, Values& out) {
    for (std::size_t n = 0; n < 12; ++n)
      for (int i = 0; i < 5; ++i) out.real["y"].push_back(in.integer.at("ids")[2 * n + 1] == i ? 1 : 0);
  });
  return op;
}

std::vector<OpCase> cases() {
  return {maximum_case("Maximum", {2, 3, 4, 5}, {2, 3, 4, 1}, 5),
          maximum_case("MaximumOneColumn", {2, 3, 4, 1}, {2, 3, 4, 1}, 1),
          maximum_case("MaximumWide", {1, 2, 3, 150}, {1, 2, 3, 1}, 150).edit("x", far_apart),
          swap_case(),
          constant_case(),
          one_hot_case()};
}

INSTANTIATE_TEST_SUITE_P(Rearrange, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::rearrange_test
