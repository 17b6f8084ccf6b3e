// RWKV-4's average: gradients, replicas and a GPU. What it reads is held by the law of rwkv4.
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

OpCase make(const std::string& name, const Shape& s, double size = 1) {
  OpCase op(name);
  op.input("k", {s.B, s.T, s.H, s.V}, normal(size));
  op.input("v", {s.B, s.T, s.H, s.V}, normal());
  op.input("log_decay", {s.B, 1, s.H, s.V}, uniform(-1, 0));
  if (s.Q)
    op.integers("position", {s.B, s.Q}, positions(s.T)).absent("bonus");
  else
    op.input("bonus", {s.B, 1, s.H, s.V}, normal());
  if (s.start)
    op.input("start", {s.B, s.H, s.V}, normal()).input("start_log", {s.B, s.H, s.V}, normal());
  else
    op.absent("start").absent("start_log");
  op.output("o", {s.B, s.queries(), s.H, s.V});
  if (s.end) op.output("end", {s.B, s.H, s.V}).output("end_log", {s.B, s.H, s.V});
  op.workspace("states", {s.B, s.H, law::segments(s.T), 2 * s.V});
  op.workspace("work", {s.B, s.H, static_cast<int>(law::work_numbers(s.T, 2 * s.V, 0))});
  call<WkvRead>(op, [](auto&) {});
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
