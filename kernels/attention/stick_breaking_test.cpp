// Stick-breaking weights against products in long double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/stick_breaking.h"

#include <cmath>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::stick_breaking_test {
namespace {

struct Shape {
  int B = 2, H = 2, Q = 5, T = 5;
  bool positions = false, strict = false;
};

OpCase make(const std::string& name, const Shape& s, double scale = 1) {
  OpCase op(name);
  op.input("s", {s.B, s.H, s.Q, s.T}, normal(scale));
  if (s.positions) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("y", {s.B, s.H, s.Q, s.T});
  call<StickBreaking>(op, [s](auto& o) { o.strict = s.strict; });
  op.oracle([s](const Values& in, Values& out) {
    Numbers& a = out.real["y"];
    a.assign(static_cast<std::size_t>(s.B * s.H * s.Q * s.T), 0);
    for (int row = 0; row < s.B * s.H * s.Q; ++row) {
      const int q = row % s.Q, b = row / s.Q / s.H;
      const int sees =
          (s.positions ? in.integer.at("position")[static_cast<std::size_t>(b * s.Q + q)] : q + 1) - s.strict;
      for (int j = 0; j < sees; ++j) {
        const auto share = [&](int l) {
          return 1 /
                 (1 + std::exp(-static_cast<long double>(in["s"][static_cast<std::size_t>(row * s.T + l)])));
        };
        long double weight = share(j);
        for (int l = j + 1; l < sees; ++l) weight *= 1 - share(l);
        a[static_cast<std::size_t>(row * s.T + j)] = static_cast<double>(weight);
      }
    }
  });
  return op.roundings(8 * s.T).condition(4).gradient_elements(100);
}

std::vector<OpCase> cases() {
  return {make("EveryToken", {}),
          make("Strict", {2, 2, 5, 5, false, true}),
          make("Positions", {2, 3, 4, 7, true, false}),
          make("StrictPositions", {2, 1, 4, 7, true, true}),
          make("Sharp", {1, 2, 9, 9, false, false}, 8),
          make("One", {1, 1, 1, 1, false, false}),
          make("Wide", {2, 2, 3, 130, true, false})};
}

INSTANTIATE_TEST_SUITE_P(StickBreaking, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::stick_breaking_test
