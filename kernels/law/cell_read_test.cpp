// LSTM, GRU and sLSTM against their equations token by token, in long double; the sLSTM with c and n as the paper has them.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read.h"

#include <fmt/format.h>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::cell_read_test {
namespace {

using Wide = long double;
using Column = std::vector<Wide>;

struct Shape {
  Cell cell;
  int B, T, H, V;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false;
  int queries() const { return Q ? Q : T; }
};

Wide sigmoid(Wide x) { return 1 / (1 + std::exp(-x)); }

/// One sequence and head.
struct Walk {
  const Values& in;
  const Shape& s;
  int b, h;
  Column hidden, c, n;

  Wide at(const std::string& name, int row, int rows, int i) const {
    return in[name][((b * rows + row) * s.H + h) * s.V + i];
  }
  Walk(const Values& in_, const Shape& s_, int b_, int h_) : in(in_), s(s_), b(b_), h(h_) {
    const auto V = static_cast<std::size_t>(s.V);
    hidden.assign(V, 0), c = hidden, n = hidden;
    for (std::size_t i = 0; s.start && i < V; ++i) {
      const int j = static_cast<int>(i);
      hidden[i] = at("start_h", 0, 1, j);
      if (s.cell != Cell::gru) c[i] = at("start_c", 0, 1, j);
      if (s.cell == Cell::slstm) n[i] = std::exp(at("start_l", 0, 1, j)), c[i] *= n[i];
    }
  }
  Wide bent(int g, int i) const {
    Wide sum = 0;
    for (int j = 0; j < s.V; ++j)
      sum += in[fmt::format("u{}", g)][((b * s.H + h) * s.V + i) * s.V + j] * hidden[j];
    return sum;
  }
  void token(int t) {
    Column next = hidden;
    for (int i = 0; i < s.V; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const auto x = [&](int g) { return at(fmt::format("x{}", g), t, s.T, i); };
      const auto a = [&](int g) { return x(g) + bent(g, i); };
      if (s.cell == Cell::gru) {
        const Wide u = sigmoid(a(1));
        next[k] = (1 - u) * std::tanh(x(2) + sigmoid(a(0)) * bent(2, i)) + u * hidden[k];
        continue;
      }
      const Wide input = s.cell == Cell::lstm ? sigmoid(a(0)) : std::exp(a(0));
      c[k] = sigmoid(a(1)) * c[k] + input * std::tanh(a(2)), n[k] = sigmoid(a(1)) * n[k] + input;
      next[k] = sigmoid(a(3)) * (s.cell == Cell::lstm ? std::tanh(c[k]) : c[k] / n[k]);
    }
    hidden = next;
  }
};

Values oracle(const Values& in, const Shape& s) {
  Values out;
  const int Q = s.queries();
  Numbers& o = out.real["o"];
  o.resize(static_cast<std::size_t>(s.B * Q * s.H * s.V));
  for (int b = 0; b < s.B; ++b) {
    for (int h = 0; h < s.H; ++h) {
      Walk walk(in, s, b, h);
      for (int t = 0; t <= s.T; ++t) {
        for (int i = 0; i < Q; ++i) {
          if ((s.Q ? in.integer.at("position")[b * Q + i] : i + 1) != t) continue;
          for (int c = 0; c < s.V; ++c)
            o[((b * Q + i) * s.H + h) * s.V + c] = static_cast<double>(walk.hidden[c]);
        }
        if (t < s.T) walk.token(t);
      }
      for (std::size_t i = 0; s.end && i < static_cast<std::size_t>(s.V); ++i) {
        out.real["end_h"].push_back(static_cast<double>(walk.hidden[i]));
        if (s.cell == Cell::lstm) out.real["end_c"].push_back(static_cast<double>(walk.c[i]));
        if (s.cell != Cell::slstm) continue;
        out.real["end_c"].push_back(static_cast<double>(walk.c[i] / walk.n[i]));
        out.real["end_l"].push_back(static_cast<double>(std::log(walk.n[i])));
      }
    }
  }
  return out;
}

OpCase make(const std::string& name, const Shape& s) {
  OpCase op(name);
  const std::vector<int> part = {s.B, s.H, s.V};
  for (int g = 0; g < 4; ++g) {
    const std::string x = fmt::format("x{}", g), u = fmt::format("u{}", g);
    if (g < cell_gates(s.cell)) {
      op.input(x, {s.B, s.T, s.H, s.V}, normal());
      op.input(u, {s.B, 1, s.H, s.V * s.V}, normal(1 / std::sqrt(s.V)));
    } else {
      op.absent(x).absent(u);
    }
  }
  const char* starts[] = {"start_h", "start_c", "start_l"};
  const char* ends[] = {"end_h", "end_c", "end_l"};
  for (int p = 0; p < 3; ++p) {
    op.optional(s.start && p < cell_parts(s.cell), starts[p], part, normal());
  }
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  for (int p = 0; s.end && p < cell_parts(s.cell); ++p) op.output(ends[p], part);
  call_planned<CellRead>(op, [s](auto& o) { o.cell = s.cell; });
  op.oracle([s](const Values& in, Values& out) { out = oracle(in, s); });
  return op.roundings(20.0 * s.T).condition(8).gradient_elements(40);
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const auto& [cell, name] :
       {std::pair{Cell::lstm, "Lstm"}, {Cell::gru, "Gru"}, {Cell::slstm, "Slstm"}}) {
    const std::string of = name;
    all.push_back(make(of + "Tokens", {cell, 2, 6, 2, 3}));
    all.push_back(make(of + "Positions", {cell, 2, 7, 2, 4, 9}));
    all.push_back(make(of + "StartAndEnd", {cell, 2, 5, 2, 3, 0, true, true}));
    all.push_back(make(of + "StartAndPositions", {cell, 2, 5, 1, 4, 6, true}));
    all.push_back(make(of + "Ones", {cell, 2, 1, 1, 1, 0, false, true}));
    all.push_back(make(of + "Long", {cell, 1, 37, 1, 5, 4, true, true}));
    all.push_back(make(of + "Wide", {cell, 1, 5, 1, 70}));
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(CellRead, OpCheck, ::testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace crosstalk::checks::cell_read_test
