// Solve, SolveValues and Mix: the inverse by its series, which ends.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/solve.h"

#include "kernels/attention/attend.h"
#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::solve_test {
namespace {

using Wide = std::vector<long double>;

/// Rows of a times 1 - N + N^2 - ... with N = Diag(gain) l, whose T-th power is 0; or, `values`, that times columns of v
/// (gained: of Diag(gain) v), which are read as rows [B,H,V,T] too.
Numbers series(int B, int H, int Q, int T, const Values& in, bool values, bool gained) {
  Numbers y;
  const Numbers& given = in[values ? "v" : "a"];
  for (int row = 0; row < B * H * Q; ++row) {
    const int q = row % Q, bh = row / Q, b = bh / H, h = bh % H;
    Wide term;
    for (int t = 0; t < T; ++t) {
      const double number = given[values ? ((b * T + t) * H + h) * Q + q : row * T + t];
      term.push_back(gained ? number * static_cast<long double>(in["gain"][(b * T + t) * H + h]) : number);
    }
    Wide total = term;
    for (int power = 1; power < T; ++power) {
      Wide next(static_cast<std::size_t>(T), 0);
      for (int i = 0; i < T; ++i) {
        for (int j = 0; j < i; ++j) {
          const long double gain = in["gain"].empty() ? 1 : in["gain"][(b * T + i) * H + h];
          next[values ? i : j] -= term[values ? j : i] * gain * in["l"][(bh * T + i) * T + j];
        }
      }
      term = next;
      for (std::size_t j = 0; j < total.size(); ++j) total[j] += term[j];
    }
    for (long double t : total) y.push_back(static_cast<double>(t));
  }
  if (!values) return y;
  Numbers u(y.size());
  for (int n = 0; n < B * H * Q * T; ++n) {
    const int t = n % T, c = n / T % Q, h = n / T / Q % H, b = n / T / Q / H;
    u[((b * T + t) * H + h) * Q + c] = y[n];
  }
  return u;
}

/// Q: queries of weights, or channels of values.
OpCase solve(const std::string& name, bool values, int B, int H, int Q, int T, const Fill& l,
             bool gain = true, bool gained = false) {
  OpCase op(name);
  const std::vector<int> dims = values ? std::vector<int>{B, T, H, Q} : std::vector<int>{B, H, Q, T};
  const std::string made = values ? "u" : "y";
  op.input(values ? "v" : "a", dims, normal()).input("l", {B, H, T, T}, l);
  op.optional(gain, "gain", {B, T, H}, uniform(-0.5, 1.5));
  op.output(made, dims).workspace("z", dims);
  if (values)
    call<SolveValues>(op, [gained](auto& o) { o.gained = gained; });
  else
    call<Solve>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) { out.real[made] = series(B, H, Q, T, in, values, gained); });
  return op.roundings(4 * T).condition(2).gradient_elements(60);
}

OpCase mix(const std::string& name, int B, int H, int Q, int T, int V) {
  OpCase op(name);
  const auto half_seen = [](RandomStream& random, int, std::int64_t i) {
    return i % 2 == 0 ? 0 : random.uniform();
  };
  op.input("a", {B, H, Q, T}, half_seen).input("v", {B, T, H, V}, normal()).output("o", {B, Q, H, V});
  call<Mix>(op, [](auto&) {});
  op.oracle([=](const Values& in, Values& out) {  // value by value: o += a_j v_j
    Wide o(static_cast<std::size_t>(B * Q * H * V), 0);
    for (int j = 0; j < T; ++j) {
      for (int n = 0; n < B * Q * H * V; ++n) {
        const int c = n % V, h = n / V % H, i = n / V / H % Q, b = n / V / H / Q;
        o[n] += static_cast<long double>(in["a"][((b * H + h) * Q + i) * T + j]) *
                in["v"][((b * T + j) * H + h) * V + c];
      }
    }
    for (long double x : o) out.real["o"].push_back(static_cast<double>(x));
  });
  return op.roundings(std::max({T, V, Q})).gradient_elements(100);
}

std::vector<OpCase> cases(bool values) {
  const auto junk_above = [](int T) {  // on and above the diagonal nothing may be looked at
    return [T](int, Numbers& l) {
      for (std::size_t i = 0; i < l.size(); ++i) {
        const auto column = i % static_cast<std::size_t>(T),
                   row = i / static_cast<std::size_t>(T) % static_cast<std::size_t>(T);
        if (column >= row) l[i] = 1e30;
      }
    };
  };
  const auto of = [&](const std::string& name, int B, int H, int Q, int T, const Fill& l, bool gain = true) {
    return solve((values ? "SolveValues" : "Solve") + name, values, B, H, Q, T, l, gain);
  };
  return {of("", 2, 2, 3, 5, normal(0.5)),
          of("NoGain", 2, 2, 3, 5, normal(0.5), false),
          of("Ones", 1, 1, 1, 1, normal()),
          of("OneColumn", 3, 1, 1, 7, normal(0.5)),
          of("Square", 1, 2, 6, 6, normal(0.5)),
          of("Tile", 1, 1, 32, 32, normal(0.1)),
          of("MoreThanATile", 1, 1, 33, 32, normal(0.1)),
          of("Wide", 1, 1, 131, 9, normal(0.3)).gradient_elements(25),
          of("Large", 1, 2, 35, 67, normal(0.05)).gradient_elements(25),
          of("Long", 1, 1, 65, 130, normal(0.02)).gradient_elements(15),
          of("NearlyParallel", 1, 1, 2, 40, constant(0.9)).gradient_elements(25),
          of("Zero", 2, 1, 2, 5, constant(0)),
          of("JunkAbove", 1, 2, 2, 5, normal(0.5)).edit("l", junk_above(5)).gradient_elements(10)};
}

std::vector<OpCase> mixes() {
  return {mix("Mix", 2, 2, 3, 5, 4),
          mix("MixOnes", 1, 1, 1, 1, 1),
          mix("MixOneQuery", 3, 2, 1, 7, 5),
          mix("MixWide", 1, 2, 2, 3, 300),
          mix("MixLarge", 1, 2, 35, 67, 37),
          mix("MixManyHeads", 32769, 2, 1, 2, 1).gradient_elements(4)};  // more than a grid has rows
}

INSTANTIATE_TEST_SUITE_P(Solve, OpCheck, ::testing::ValuesIn(cases(false)), case_name);
INSTANTIATE_TEST_SUITE_P(SolveValues, OpCheck, ::testing::ValuesIn(cases(true)), case_name);

std::vector<OpCase> gained_cases() {
  return {solve("SolveGained", true, 2, 2, 3, 5, normal(0.5), true, true),
          solve("SolveGainedLarge", true, 1, 2, 70, 67, normal(0.05), true, true).gradient_elements(25)};
}
INSTANTIATE_TEST_SUITE_P(SolveGained, OpCheck, ::testing::ValuesIn(gained_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Mix, OpCheck, ::testing::ValuesIn(mixes()), case_name);

/// o = a v of a strict l in both places: the gradient of the one variable is the sum of both.
TEST(SolveTest, OneVariableInTwoFields) {
  const int T = 5;
  OpCase op = solve("Twice", false, 1, 2, T, T, normal(0.5));
  TensorSet<double> two, one;
  op.fill(two, {0}), op.fill(one, {0});
  std::copy_n(two.real("l").at(0), two.real("l").size(), two.real("a").at(0));
  op.run_forward({}, two), op.run_backward({}, two);
  auto tied = bound<Solve, double>(one, [](auto&) {});
  tied.a = tied.l;
  tied.l.write = Write::add;
  forward({}, tied), backward({}, tied);
  for (std::int64_t i = 0; i < two.real("d_l").size(); ++i)
    two.real("d_l").at(0)[i] += two.real("d_a").at(0)[i];
  EXPECT_TRUE(close("d_l", one.real("d_l"), two.real("d_l"), 1e-13));
}

}  // namespace
}  // namespace crosstalk::checks::solve_test
