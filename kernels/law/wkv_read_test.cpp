// RWKV-4's average against its sums: weights e^{(t-1-j) g + k_j} written out, in long double.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/wkv_read.h"

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::wkv_read_test {
namespace {

struct Shape {
  int B, T, H, V;
  int Q = 0;  ///< 0: no positions, reads before tokens with a bonus
  bool start = false, end = false;
  int queries() const { return Q ? Q : T; }
};

Values oracle(const Values& in, const Shape& s) {
  Values out;
  const auto at = [&](const std::string& name, int row, int rows, int b, int h, int c) -> long double {
    return in[name][((b * rows + row) * s.H + h) * s.V + c];
  };
  /// After n tokens: sum of weights times values, sum of weights, both divided by e^top.
  const auto sums = [&](int n, int b, int h, int c, long double top) {
    long double with = 0, without = 0;
    const long double g = at("log_decay", 0, 1, b, h, c);
    for (int j = 0; j < n; ++j) {
      const long double weight = std::exp((n - 1 - j) * g + at("k", j, s.T, b, h, c) - top);
      with += weight * at("v", j, s.T, b, h, c), without += weight;
    }
    if (s.start) {
      const long double weight = std::exp(n * g + at("start_log", 0, 1, b, h, c) - top);
      with += weight * at("start", 0, 1, b, h, c), without += weight;
    }
    return std::pair(with, without);
  };
  const int Q = s.queries();
  for (int b = 0; b < s.B; ++b) {
    for (int i = 0; i < Q; ++i) {
      for (int h = 0; h < s.H; ++h) {
        for (int c = 0; c < s.V; ++c) {
          const int n = s.Q ? in.integer.at("position")[b * Q + i] : i;
          long double top = -1e30L;
          for (int j = 0; j < s.T; ++j) top = std::max(top, at("k", j, s.T, b, h, c));
          auto [with, without] = sums(n, b, h, c, top);
          if (!s.Q) {
            const long double own = std::exp(at("bonus", 0, 1, b, h, c) + at("k", i, s.T, b, h, c) - top);
            with += own * at("v", i, s.T, b, h, c), without += own;
          }
          out.real["o"].push_back(static_cast<double>(without == 0 ? 0 : with / without));
        }
      }
    }
    for (int i = 0; s.end && i < s.H * s.V; ++i) {
      const auto [with, without] = sums(s.T, b, i / s.V, i % s.V, 0);
      out.real["end"].push_back(static_cast<double>(with / without));
      out.real["end_log"].push_back(static_cast<double>(std::log(without)));
    }
  }
  return out;
}

OpCase make(const std::string& name, const Shape& s, double size = 1) {
  OpCase op(name);
  op.input("k", {s.B, s.T, s.H, s.V}, normal(size));
  op.input("v", {s.B, s.T, s.H, s.V}, normal());
  op.input("log_decay", {s.B, 1, s.H, s.V}, uniform(-1, 0));
  if (s.Q) {
    op.integers("position", {s.B, s.Q}, positions(s.T)).absent("bonus");
  } else {
    op.input("bonus", {s.B, 1, s.H, s.V}, normal());
  }
  if (s.start) {
    op.input("start", {s.B, s.H, s.V}, normal()).input("start_log", {s.B, s.H, s.V}, normal());
  } else {
    op.absent("start").absent("start_log");
  }
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V}).output("end_log", {s.B, s.H, s.V});
  op.workspace("states", {s.B, s.H, law::segments(s.T), 2 * s.V});
  op.workspace("work", {s.B, s.H, static_cast<int>(law::work_numbers(s.T, 2 * s.V, 0))});
  call<WkvRead>(op, [](auto&) {});
  op.oracle([s](const Values& in, Values& out) { out = oracle(in, s); });
  return op.roundings(6.0 * s.T).condition(4 + size).gradient_elements(40);
}

std::vector<OpCase> cases() {
  return {make("Tokens", {2, 6, 2, 3}),
          make("Positions", {2, 7, 2, 4, 9}),
          make("StartAndEnd", {2, 5, 2, 3, 0, true, true}),
          make("StartAndPositions", {2, 5, 1, 4, 6, true}),
          make("End", {2, 6, 1, 3, 2, false, true}),
          make("OneToken", {3, 1, 2, 3}),
          make("Ones", {2, 3, 1, 1, 2}),
          make("Long", {1, 37, 1, 5, 4, true, true}),
          make("Wide", {1, 5, 1, 300}),
          make("HugeKeys", {2, 8, 1, 3}, 300),
          make("HugeKeysPositions", {2, 8, 1, 3, 5}, 300)};
}

INSTANTIATE_TEST_SUITE_P(WkvRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::wkv_read_test
