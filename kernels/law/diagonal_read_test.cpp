// The diagonal read against its sums written out: every write times the factors of the steps behind it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/diagonal_read.h"

#include <complex>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::diagonal_read_test {
namespace {

using Number = std::complex<long double>;

struct Shape {
  int B, T, H, K, V;
  bool complex = false;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false, either_sign = false;
  bool steady = false;  ///< one step for all tokens
  int gates = 0;        ///< of rows (1), and of columns (2), in place of steps and rates
  bool of_keys = false;
  int queries() const { return Q ? Q : T; }
};

/// Entry (v, c) of the state of sequence b and head h after n tokens.
Number entry(const Values& in, const Shape& s, int b, int h, int v, int c, int n) {
  const auto token = [&](int t) { return static_cast<std::size_t>((b * s.T + t) * s.H + h); };
  const auto i = static_cast<std::size_t>(((b * s.H + h) * s.V + v) * s.K + c);
  Number rate = 0;
  if (!s.gates && !s.of_keys)
    rate = Number(-std::exp(static_cast<long double>(in["log_rate"][i])), s.complex ? in["angle"][i] : 0);
  Number total = 0, behind = 1;
  for (int t = n - 1; t >= 0; --t) {
    const auto value = token(t) * static_cast<std::size_t>(s.V) + static_cast<std::size_t>(v);
    const auto key = token(t) * static_cast<std::size_t>(s.K) + static_cast<std::size_t>(c);
    const long double step = s.gates ? 1 : s.steady ? in["step"][(b * s.H + h) * s.V + v] : in["step"][value];
    total += behind * (step * in["v"][value] * in["k"][key]);
    if (s.gates) rate = in["row_log_decay"][value] + (s.gates > 1 ? in["column_log_decay"][key] : 0.0);
    const long double square = static_cast<long double>(in["k"][key]) * in["k"][key];
    const Number kept = s.of_keys ? Number(1 - step * square) : std::exp(rate * step);
    behind *= s.either_sign ? 2.0L * kept - 1.0L : kept;
  }
  if (s.start) total += behind * Number(in["start"][i], s.complex ? in["start_imag"][i] : 0);
  return total;
}

Values oracle(const Values& in, const Shape& s) {
  Values out;
  const int Q = s.queries();
  for (int b = 0; b < s.B; ++b) {
    for (int q = 0; q < Q; ++q) {
      for (int h = 0; h < s.H; ++h) {
        const int n = s.Q ? in.integer.at("position")[b * Q + q] : q + 1;
        for (int v = 0; v < s.V; ++v) {
          long double o = 0;
          for (int c = 0; c < s.K; ++c) {
            const auto i = static_cast<std::size_t>(((b * s.H + h) * s.V + v) * s.K + c);
            const Number read = s.complex ? 2.0L * Number(in["read"][i], in["read_imag"][i]) : Number(1);
            const Number held = read * entry(in, s, b, h, v, c, n);
            o += held.real() * in["q"][((b * Q + q) * s.H + h) * s.K + c];
          }
          out.real["o"].push_back(static_cast<double>(o));
        }
      }
    }
  }
  for (int i = 0; s.end && i < s.B * s.H * s.V * s.K; ++i) {
    const int c = i % s.K, v = i / s.K % s.V, h = i / s.K / s.V % s.H, b = i / s.K / s.V / s.H;
    const Number last = entry(in, s, b, h, v, c, s.T);
    out.real["end"].push_back(static_cast<double>(last.real()));
    if (s.complex) out.real["end_imag"].push_back(static_cast<double>(last.imag()));
  }
  return out;
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op((s.complex       ? "Complex"
             : s.either_sign ? "EitherSign"
             : s.gates       ? "Gates"
             : s.of_keys     ? "OfKeys"
                             : "Real") +
            name);
  op.input("q", {s.B, s.queries(), s.H, s.K}, normal());
  op.input("k", {s.B, s.T, s.H, s.K}, s.of_keys ? uniform(-1, 1) : normal());
  op.input("v", {s.B, s.T, s.H, s.V}, normal());
  op.optional(!s.gates, "step", {s.B, s.steady ? 1 : s.T, s.H, s.V}, uniform(0.05, 1));
  op.optional(!s.gates && !s.of_keys, "log_rate", {s.B, 1, s.H, s.V * s.K},
              s.either_sign ? uniform(-1.5, 2.5) : uniform(-1.5, 0.5));
  op.optional(s.gates > 0, "row_log_decay", {s.B, s.T, s.H, s.V}, uniform(-1, 0));
  op.optional(s.gates > 1, "column_log_decay", {s.B, s.T, s.H, s.K}, uniform(-1, 0));
  // A steady step turns the last state by T angles: differences of 1e-3 in it would be off by the fifth power of that.
  op.optional(s.complex, "angle", {s.B, 1, s.H, s.V * s.K}, normal(s.steady ? 6.0 / s.T : 2));
  op.optional(s.complex, "read", {s.B, 1, s.H, s.V * s.K}, normal());
  op.optional(s.complex, "read_imag", {s.B, 1, s.H, s.V * s.K}, normal());
  op.optional(s.start, "start", {s.B, s.H, s.V, s.K}, normal());
  op.optional(s.start && s.complex, "start_imag", {s.B, s.H, s.V, s.K}, normal());
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V, s.K});
  if (s.end && s.complex) op.output("end_imag", {s.B, s.H, s.V, s.K});
  call_planned<DiagonalRead>(op, [=](auto& o) { o.either_sign = s.either_sign, o.of_keys = s.of_keys; });
  op.oracle([s](const Values& in, Values& out) { out = oracle(in, s); });
  return op.roundings(6.0 * s.T + s.K + s.V).condition(4).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const bool complex : {false, true}) {
    all.push_back(make("Tokens", {2, 6, 2, 5, 3, complex}));
    all.push_back(make("Positions", {2, 7, 2, 4, 5, complex, 9}));
    all.push_back(make("StartAndEnd", {2, 5, 2, 4, 3, complex, 0, true, true}));
    all.push_back(make("StartAndPositions", {2, 5, 1, 3, 4, complex, 6, true}));
    all.push_back(make("OneToken", {3, 1, 2, 3, 2, complex}));
    all.push_back(make("Ones", {2, 3, 1, 1, 1, complex}));
    all.push_back(make("Long", {1, 37, 1, 6, 5, complex, 4, true, true}));
    all.push_back(make("WideKeys", {1, 5, 1, 70, 3, complex, 2}));
    all.push_back(make("WideValues", {1, 5, 2, 3, 70, complex, 3}));
  }
  for (Shape s : {Shape{2, 6, 2, 5, 3}, {2, 7, 2, 4, 5, true, 9}, {1, 19, 1, 6, 5, true, 0, true, true}}) {
    s.steady = true;
    all.push_back(make(fmt::format("Steady{}", s.T), s));
  }
  for (const int gates : {1, 2}) {
    const auto gated = [&](const std::string& name, Shape s) {
      s.gates = gates;
      all.push_back(make((gates > 1 ? "OfBoth" : "OfRows") + name, s));
    };
    gated("Tokens", {2, 6, 2, 5, 3});
    gated("Positions", {2, 7, 2, 4, 5, false, 9});
    gated("StartAndEnd", {1, 37, 2, 6, 5, false, 0, true, true});
  }
  // What CUDA does in registers: cut tiles of rows and columns, tokens around its 4 a stage and 12 a segment.
  const Shape in_registers[] = {
      {2, 11, 2, 20, 9}, {1, 12, 1, 33, 17}, {1, 13, 2, 65, 5}, {1, 25, 1, 5, 140}, {1, 4, 1, 64, 70}};
  for (Shape s : in_registers) {
    for (const int law : {0, 1, 2, 3, 4}) {
      if (law == 4 && s.T != 11 && s.T != 13) continue;  // the others differ in what the laws share
      s.complex = s.steady = law == 1, s.either_sign = law == 2, s.gates = law == 3 ? 2 : 0,
      s.of_keys = law == 4, s.start = s.end = s.T != 13;
      all.push_back(make(fmt::format("InRegisters{}", s.T), s));
    }
  }
  for (Shape s : {Shape{2, 6, 2, 5, 3}, {2, 7, 2, 4, 5, false, 9}, {1, 37, 1, 6, 5, false, 4, true, true}}) {
    s.either_sign = true;
    all.push_back(make(fmt::format("Of{}", s.T), s));
    s.either_sign = false, s.of_keys = true;
    all.push_back(make(fmt::format("Squares{}", s.T), s));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(DiagonalRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::diagonal_read_test
