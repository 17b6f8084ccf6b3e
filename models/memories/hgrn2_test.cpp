// HGRN2 (Qin et al. 2024, arXiv 2404.07904): its oracle and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/gate_laws.h"
#include "models/testing/gate_starts.h"
#include "models/testing/random_sequence.h"

namespace crosstalk::checks::hgrn2_test {
namespace {

// S_t = S_{t-1} Diag(alpha_t) + v_t (1 - alpha_t)^T: the key is what the decay leaves free
Matrix hgrn2(const Sequence& s) {
  Matrix state = start(s), o;
  for (int t = 0; t < s.T; ++t) {
    const Vector alpha = exponential(s.row("log_decay", t));
    state = plus_outer(times_diagonal(state, alpha), 1, s.value(t), minus(Vector(alpha.size(), 1), alpha));
    o.push_back(times(state, s.query(t)));
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(hgrn2, hgrn2);
CROSSTALK_GATE_LAW(hgrn2, log_decay,
                   std::log(x.option("lower_bound") +
                            (1 - x.option("lower_bound")) * sigmoid(x("forget_gate"))));
CROSSTALK_HALF_LIFE(hgrn2, 1.002);
CROSSTALK_START(hgrn2, lower_bound, "0.4", 1.943, 0);

TEST(Hgrn2Oracle, IsGlaWithTiedKeys) {
  Sequence s = random_sequence(no_options(), 6, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(6, 4, -2, 0, 2);
  for (int t = 0; t < 6; ++t)
    s.k[static_cast<std::size_t>(t)] = minus(Vector(4, 1), exponential(s.row("log_decay", t)));
  expect_close(read("hgrn2", s), read("gla", s));
}

TEST(Hgrn2Oracle, EveryChannelIsAnAverageOfValues) {
  Sequence s = random_sequence(no_options(), 3, 2, 1, 3);
  s.v = constant_rows(3, 1, 4), s.q = Matrix(3, unit(2, 0));
  s.in["log_decay"] = {{-900, 0}, {std::log(0.2), -1}, {std::log(0.9), -3}};
  expect_close(read("hgrn2", s), constant_rows(3, 1, 4));
}

}  // namespace
}  // namespace crosstalk::checks::hgrn2_test
