// Gated DeltaNet-2 (arXiv 2605.22791): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/random_sequence.h"

namespace crosstalk::checks {
namespace {

// P = S_{t-1} Diag(alpha_t), S_t = P + (w_t * v_t - P (b_t * k_t)) k_t^T
Matrix gated_delta2(const Sequence& s) {
  Matrix state = start(s), o;
  for (int t = 0; t < s.T; ++t) {
    const Matrix faded = times_diagonal(state, exponential(s.row("log_decay", t)));
    const Vector held = times(faded, elementwise(s.row("erase_gate", t), s.key(t)));
    state = plus_outer(faded, 1, minus(elementwise(s.row("write_gate", t), s.value(t)), held), s.key(t));
    o.push_back(times(state, s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(gated_delta2, gated_delta2);

TEST(GatedDelta2Oracle, EqualGatesAreKda) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 2), s.in["beta"] = uniform_rows(6, 1, 0, 1, 3);
  const Matrix o = read("kda", s);
  for (const Vector& beta : s.in["beta"]) {
    s.in["erase_gate"].push_back(Vector(4, beta[0]));
    s.in["write_gate"].push_back(Vector(3, beta[0]));
  }
  expect_close(read("gated_delta2", s), o);
}

TEST(GatedDelta2Oracle, WithoutEraseAndFullWriteIsGla) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 4);
  s.in["log_decay"] = uniform_rows(6, 4, -1, 0, 5);
  s.in["erase_gate"] = constant_rows(6, 4, 0), s.in["write_gate"] = constant_rows(6, 3, 1);
  expect_close(read("gated_delta2", s), read("gla", s));
}

}  // namespace
}  // namespace crosstalk::checks
