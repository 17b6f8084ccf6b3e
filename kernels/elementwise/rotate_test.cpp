// Rotary positions against products of complex numbers, and their law: only distances count.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/elementwise/rotate.h"

#include <complex>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::rotate_test {
namespace {

struct Shape {
  int B = 2, N = 5, H = 2, K = 6;
  bool positions = false;
  double base = 100, angle = 0;
};

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  op.input("x", {s.B, s.N, s.H, s.K}, normal());
  if (s.positions) op.integers("position", {s.B, s.N}, positions(40));
  op.output("y", {s.B, s.N, s.H, s.K});
  call<Rotate>(op, [s](auto& o) { o.base = s.base, o.angle = s.angle; });
  op.oracle([s](const Values& in, Values& out) {
    for (int row = 0; row < s.B * s.N * s.H; ++row) {
      const int n = row / s.H % s.N, b = row / s.H / s.N;
      const int at = s.positions ? in.integer.at("position")[b * s.N + n] - 1 : n;
      const double* x = in["x"].data() + row * s.K;
      for (int c = 0; c < s.K; ++c) {
        const int pair = c / 2 * 2;
        if (pair + 1 == s.K) {
          out.real["y"].push_back(x[c]);
          continue;
        }
        const long double angle = at * (s.angle != 0 ? static_cast<long double>(s.angle)
                                                     : std::pow(static_cast<long double>(s.base),
                                                                -static_cast<long double>(pair) / s.K));
        const auto z = std::complex<long double>(x[pair], x[pair + 1]) * std::polar(1.0L, angle);
        out.real["y"].push_back(static_cast<double>(c % 2 == 0 ? z.real() : z.imag()));
      }
    }
  });
  return op.roundings(60).condition(2).gradient_elements(100);
}

std::vector<OpCase> cases() {
  const Shape s;
  return {make("EveryToken", s),
          make("Positions", {2, 5, 2, 6, true, 100}),
          make("OddWidth", {2, 5, 2, 3, true, 10000}),
          make("OneChannel", {1, 2, 1, 1, false, 10}),
          make("Ones", {1, 1, 1, 2, true, 10}),
          make("EqualAngles", {2, 5, 2, 6, true, 100, 0.3}),
          make("Wide", {2, 67, 3, 130, true, 10000})};
}

INSTANTIATE_TEST_SUITE_P(Rotate, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::rotate_test
