// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/linear.h"

#include "kernels/testing/op_check.h"

namespace crosstalk::checks {
namespace {

OpCase make(const std::string& name, int N, int I, int O, bool bias) {
  OpCase op(name);
  op.input("x", {N, I}, normal()).input("w", {O, I}, normal());
  if (bias) {
    op.input("b", {O}, normal());
  } else {
    op.absent("b");
  }
  op.output("y", {N, O});
  op.forward([](const Exec& exec, auto& s) {
    run(exec, LinearForward{s.real("x"), s.real("w"), s.real("b"), s.real("y")});
  });
  op.backward([](const Exec& exec, auto& s) {
    run(exec, LinearBackward{s.real("x"), s.real("w"), s.real("d_y"), s.real("d_x"), s.real("d_w"),
                             s.real("d_b"), s.write("x"), s.write("w"), s.write("b")});
  });
  op.oracle([=](const Values& in) {
    Values out;
    for (int n = 0; n < N; ++n) {
      for (int o = 0; o < O; ++o) {
        long double y = bias ? in["b"][static_cast<std::size_t>(o)] : 0.0;
        for (int i = 0; i < I; ++i)
          y += static_cast<long double>(in["x"][static_cast<std::size_t>(n * I + i)]) *
               in["w"][static_cast<std::size_t>(o * I + i)];
        out.real["y"].push_back(static_cast<double>(y));
      }
    }
    return out;
  });
  return op.roundings(std::max({N, I, O})).gradient_elements(200);
}

std::vector<OpCase> cases() {
  return {make("Bias", 5, 7, 3, true),       make("NoBias", 5, 7, 3, false),
          make("OneRow", 1, 9, 4, true),     make("OneInput", 6, 1, 4, true),
          make("OneOutput", 6, 5, 1, true),  make("Blocks", 67, 65, 34, true),
          make("ManyRows", 301, 3, 5, true), make("Wide", 3, 5, 130, false)};
}

INSTANTIATE_TEST_SUITE_P(Linear, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
