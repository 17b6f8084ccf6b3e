// SPDX-License-Identifier: Apache-2.0
#include "kernels/recurrence/prefix_dot.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks {
namespace {

/// Sums of pairwise products instead of a running sum.
Values oracle(const Values& in, int B, int T, int Q, int P) {
  const auto dot = [P](const double* x, const double* y) {
    long double sum = 0;
    for (int p = 0; p < P; ++p) sum += static_cast<long double>(x[p]) * y[p];
    return sum;
  };
  Values out;
  for (int b = 0; b < B; ++b) {
    const auto k = [&](int t) { return in["k"].data() + (b * T + t) * P; };
    for (int t = 0; t < T; ++t) {
      long double sum = 0;
      for (int i = 0; i < t; ++i) sum += dot(k(i), k(t));
      out.real["zk"].push_back(static_cast<double>(sum));
    }
    for (int j = 0; j < Q; ++j) {
      long double sum = 0;
      for (int i = 0; i < in.integer.at("position")[static_cast<std::size_t>(b * Q + j)]; ++i)
        sum += dot(k(i), in["q"].data() + (b * Q + j) * P);
      out.real["zq"].push_back(static_cast<double>(sum));
    }
  }
  return out;
}

OpCase make(const std::string& name, int B, int T, int Q, int P, const Fill& fill) {
  OpCase op(name);
  op.input("k", {B, T, P}, fill).input("q", {B, Q, P}, fill).integers("position", {B, Q}, positions(T));
  op.output("zk", {B, T}).output("zq", {B, Q});
  call<PrefixDot>(op, [](auto&) {});
  op.oracle([=](const Values& in) { return oracle(in, B, T, Q, P); });
  return op.roundings(T + P).condition(4);
}

std::vector<OpCase> cases() {
  return {make("OneQuery", 5, 7, 1, 5, normal()),
          make("ManyQueries", 4, 6, 5, 3, normal()),
          make("Positive", 4, 9, 2, 17, uniform(0, 1)),
          make("OneToken", 4, 1, 2, 3, normal()),
          make("OneDimension", 3, 5, 2, 1, normal()),
          make("Long", 3, 50, 3, 33, normal()).gradient_elements(100),
          make("ZeroKey", 4, 6, 2, 4, normal()).edit("k", [](int, Numbers& k) {
            for (std::size_t i = 0; i < 8; ++i) k[i] = 0;
          })};
}

INSTANTIATE_TEST_SUITE_P(PrefixDot, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks
