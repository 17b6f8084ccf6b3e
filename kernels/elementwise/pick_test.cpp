// Picked rows against a search through positions.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/pick.h"

#include <algorithm>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::pick_test {
namespace {

// Q = 0: no positions.
OpCase pick_case(const std::string& name, int B, int T, int given, int H, int N) {
  OpCase op(name);
  const int Q = given ? given : 1;
  op.input("x", {B, T, H, N}, normal());
  if (given) op.integers("position", {B, Q}, positions(T));
  op.output("y", {B, Q, H, N});
  call<Pick>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {
    for (int i = 0; i < B * Q * H * N; ++i) {
      const int column = i % (H * N), query = i / (H * N), b = query / Q;
      const int seen = given ? std::clamp(in.integer.at("position")[query], 0, T) : T;
      const int at = (b * T + seen - 1) * H * N + column;
      out.real["y"].push_back(seen == 0 ? 0 : in["x"][at]);
    }
  });
  return op.roundings(2 * Q);
}

OpCase signs_case() {
  constexpr int B = 2, T = 9, columns = 6;
  OpCase op("Signs");
  op.parameter("x", {B, T, 2, 3}, normal()).output_without_gradient("y", {B, T, 2, 3});
  op.edit("x", [](int, Numbers& x) { x[4] = 0, x[20] = -0.0; });
  call<Signs>(op, [](auto&) {});
  op.backward(nullptr);
  op.oracle([=](const Values& in, Values& out) {
    for (int i = 0; i < B * T * columns; ++i) {
      int negative = 0;
      for (int t = 0; t <= i / columns % T; ++t)
        negative += in["x"][(i / columns / T * T + t) * columns + i % columns] < 0;
      out.real["y"].push_back(negative % 2 ? -1 : 1);
    }
  });
  return op;
}

std::vector<OpCase> cases() {
  return {pick_case("PickOne", 3, 5, 1, 1, 1),    pick_case("PickMany", 2, 6, 11, 2, 5),
          pick_case("PickWide", 2, 40, 3, 1, 70), pick_case("PickLast", 3, 6, 0, 2, 5),
          pick_case("PickMost", 2, 6, 70, 1, 5),  signs_case()};
}

INSTANTIATE_TEST_SUITE_P(Pick, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::pick_test
