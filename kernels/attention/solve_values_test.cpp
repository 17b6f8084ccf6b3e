// SolveValues: the inverse by its series, which ends; weights that read what was written are those of Solve.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve_values.h"

#include "kernels/attention/attend.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::solve_values_test {
namespace {

/// u = v - N v + N^2 v - ... with N = Diag(gain) l, whose T-th power is 0; column c of sequence b and head h.
void series(int B, int H, int T, int V, const Values& in, Values& out) {
  std::vector<long double> u(static_cast<std::size_t>(B * T * H * V), 0);
  const auto at = [&](int b, int t, int h, int c) {
    return static_cast<std::size_t>(((b * T + t) * H + h) * V + c);
  };
  for (int n = 0; n < B * H * V; ++n) {
    const int c = n % V, h = n / V % H, b = n / V / H;
    std::vector<long double> term(static_cast<std::size_t>(T));
    for (int t = 0; t < T; ++t) term[static_cast<std::size_t>(t)] = in["v"][at(b, t, h, c)];
    for (int power = 0; power < T; ++power) {
      std::vector<long double> next(static_cast<std::size_t>(T), 0);
      for (int t = 0; t < T; ++t) {
        u[at(b, t, h, c)] += term[static_cast<std::size_t>(t)];
        const long double gain =
            in["gain"].empty() ? 1 : in["gain"][static_cast<std::size_t>((b * T + t) * H + h)];
        for (int j = 0; j < t; ++j)
          next[static_cast<std::size_t>(t)] -=
              gain * in["l"][static_cast<std::size_t>(((b * H + h) * T + t) * T + j)] *
              term[static_cast<std::size_t>(j)];
      }
      term = next;
    }
  }
  for (long double x : u) out.real["u"].push_back(static_cast<double>(x));
}

OpCase solve(const std::string& name, int B, int H, int T, int V, const Fill& l, bool gain = true) {
  OpCase op(name);
  op.input("v", {B, T, H, V}, normal()).input("l", {B, H, T, T}, l);
  if (gain) {
    op.input("gain", {B, T, H}, uniform(-0.5, 1.5));
  } else {
    op.absent("gain");
  }
  op.output("u", {B, T, H, V}).workspace("z", {B, T, H, V});
  call<SolveValues>(op, [](auto&) {});
  op.oracle([=](const Values& in) {
    Values out;
    series(B, H, T, V, in, out);
    return out;
  });
  return op.roundings(4 * T).condition(2).gradient_elements(60);
}

std::vector<OpCase> cases() {
  const auto junk_above = [](int T) {  // on and above the diagonal nothing may be looked at
    return [T](int, Numbers& l) {
      for (std::size_t i = 0; i < l.size(); ++i) {
        const auto column = i % static_cast<std::size_t>(T),
                   row = i / static_cast<std::size_t>(T) % static_cast<std::size_t>(T);
        if (column >= row) l[i] = 1e30;
      }
    };
  };
  return {
      solve("SolveValues", 2, 2, 5, 3, normal(0.5)),
      solve("SolveValuesNoGain", 2, 2, 5, 3, normal(0.5), false),
      solve("SolveValuesOnes", 1, 1, 1, 1, normal()),
      solve("SolveValuesOneChannel", 3, 1, 7, 1, normal(0.5)),
      solve("SolveValuesTile", 1, 1, 32, 32, normal(0.1)),
      solve("SolveValuesWide", 1, 1, 9, 131, normal(0.3)).gradient_elements(25),
      solve("SolveValuesLarge", 1, 2, 67, 35, normal(0.05)).gradient_elements(25),
      solve("SolveValuesLong", 1, 1, 130, 65, normal(0.02)).gradient_elements(15),
      solve("SolveValuesNearlyParallel", 1, 1, 40, 2, constant(0.9)).gradient_elements(25),
      solve("SolveValuesZero", 2, 1, 5, 2, constant(0)),
      solve("SolveValuesJunkAbove", 1, 2, 5, 2, normal(0.5)).edit("l", junk_above(5)).gradient_elements(10)};
}

INSTANTIATE_TEST_SUITE_P(SolveValues, OpCheck, ::testing::ValuesIn(cases()), case_name);

/// a u with u of SolveValues is y v with y of Solve.
TEST(SolveValuesTest, WeightsReadTheSameThroughEither) {
  const int B = 2, H = 2, Q = 9, T = 40, V = 6;
  OpCase op("Either");
  op.input("a", {B, H, Q, T}, normal())
      .input("l", {B, H, T, T}, normal(0.1))
      .input("v", {B, T, H, V}, normal());
  op.input("gain", {B, T, H}, uniform(0, 1));
  op.output("y", {B, H, Q, T})
      .output("u", {B, T, H, V})
      .output("one", {B, Q, H, V})
      .output("other", {B, Q, H, V});
  TensorSet<double> set;
  op.fill(set, {0});
  Solve<double> weights;
  weights.a.value = set.real("a"), weights.l.value = set.real("l"), weights.gain.value = set.real("gain");
  weights.y.value = set.real("y");
  SolveValues<double> values;
  values.v.value = set.real("v"), values.l.value = set.real("l"), values.gain.value = set.real("gain");
  values.u.value = set.real("u");
  Mix<double> one, other;
  one.a.value = set.real("y"), one.v.value = set.real("v"), one.o.value = set.real("one");
  other.a.value = set.real("a"), other.v.value = set.real("u"), other.o.value = set.real("other");
  forward({}, weights), forward({}, values), forward({}, one), forward({}, other);
  EXPECT_GT(magnitude(set.real("one").at(0), B * Q * H * V), 0.1);
  EXPECT_TRUE(close("o", set.real("one"), set.real("other"), 1e-12));
}

}  // namespace
}  // namespace crosstalk::checks::solve_values_test
