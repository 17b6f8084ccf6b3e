// LSTM, GRU and sLSTM: gradients, replicas and a GPU. What they read is held by the laws of lstm, gru and slstm.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/law/cell_read.h"

#include <fmt/format.h>

#include "kernels/testing/op_fields.h"

namespace crosstalk::checks::cell_read_test {
namespace {

struct Shape {
  Cell cell;
  int B, T, H, V;
  int Q = 0;  ///< 0: no positions
  bool start = false, end = false;
  int queries() const { return Q ? Q : T; }
};

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
  for (int p = 0; p < 3; ++p) op.optional(s.start && p < cell_parts(s.cell), starts[p], part, normal());
  if (s.Q) op.integers("position", {s.B, s.Q}, positions(s.T));
  op.output("o", {s.B, s.queries(), s.H, s.V});
  for (int p = 0; s.end && p < cell_parts(s.cell); ++p) op.output(ends[p], part);
  call_planned<CellRead>(op, [s](auto& o) { o.cell = s.cell; });
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
