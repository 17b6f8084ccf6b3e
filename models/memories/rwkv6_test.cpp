// RWKV-6, Finch (Peng et al. 2024, arXiv 2404.05892): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks {
namespace {

// o_t = S_{t-1} q_t + v_t ((bonus * k_t).q_t), then S_t = S_{t-1} Diag(alpha_t) + v_t k_t^T
Matrix rwkv6(const Sequence& s) {
  Matrix state = start(s), o;
  for (int t = 0; t < s.T; ++t) {
    const double own = dot(elementwise(s.row("bonus", 0), s.key(t)), s.query(t));
    o.push_back(plus(times(state, s.query(t)), own, s.value(t)));
    state = times_diagonal(state, exponential(s.row("log_decay", t)));
    state = plus_outer(state, 1, s.value(t), s.key(t));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(rwkv6, rwkv6);
CROSSTALK_GATE_LAW(rwkv6, log_decay, -std::exp(x("decay")));
CROSSTALK_GATE_LAW(rwkv6, bonus, x("bonus"));
CROSSTALK_HALF_LIFE(rwkv6, 24.5);

TEST(Rwkv6Oracle, BonusOneWithoutDecayIsLinearAttention) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["bonus"] = constant_rows(1, 4, 1), s.in["log_decay"] = constant_rows(6, 4, 0);
  expect_close(read("rwkv6", s), read("linear_attention", s));
}

TEST(Rwkv6Oracle, WithoutBonusATokenDoesNotSeeItself) {
  Sequence s = random_sequence(no_options(), 4, 4, 3, 2);
  s.in["bonus"] = constant_rows(1, 4, 0), s.in["log_decay"] = constant_rows(4, 4, -1);
  const Matrix o = read("rwkv6", s);
  expect_close(o[0], Vector(3, 0));
  expect_close(o[1], scaled(dot(s.k[0], s.q[1]), s.v[0]));  // a decay after the read: none so far
  s.k[3] = Vector(4, 9), s.v[3] = Vector(3, 9), s.in["log_decay"][3] = Vector(4, -9);
  expect_close(read("rwkv6", s)[3], o[3]);
}

}  // namespace
}  // namespace crosstalk::checks
