// Log-linear Gated DeltaNet (Guo et al. 2025, arXiv 2506.04761): its oracle, with the states of a Fenwick tree, and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::log_linear_gated_delta_test {
namespace {

// All levels: S^l <- alpha_t S^l (I - beta_t k_t k_t^T). At t > 0, with l - 1 the trailing zeros of t, level l takes what is
// in the levels below it; then S^0 = beta_t v_t k_t^T, o_t = sum_l lambda_t^l S^l q_t.
Matrix log_linear_gated_delta(const Sequence& s) {
  std::vector<Matrix> states(17, zeros(s.V, s.K));
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    const double beta = s.number("beta", t);
    for (Matrix& state : states) {
      state = times(std::exp(s.number("log_decay", t)), state);
      state = plus_outer(state, -beta, times(state, s.key(t)), s.key(t));
    }
    std::size_t level = 1;
    while (t > 0 && !(t >> (level - 1) & 1)) ++level;
    for (std::size_t l = 0; t > 0 && l < level; ++l) {
      for (std::size_t v = 0; v < states[l].size(); ++v)
        states[level][v] = plus(states[level][v], 1, states[l][v]);
      states[l] = zeros(s.V, s.K);
    }
    states[0] = plus_outer(zeros(s.V, s.K), beta, s.value(t), s.key(t));
    Vector read(static_cast<std::size_t>(s.V), 0);
    for (std::size_t l = 0; l < 16; ++l)
      read = plus(read, s.row("level_gate", t)[l], times(states[l], s.query(t)));
    o.push_back(read);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(log_linear_gated_delta, log_linear_gated_delta);
CROSSTALK_GATE_LAW(log_linear_gated_delta, log_decay, mamba_law(x));
CROSSTALK_GATE_LAW(log_linear_gated_delta, beta, x.option("beta_max") * sigmoid(x("beta")));
CROSSTALK_GATE_LAW(log_linear_gated_delta, level_gate, softplus(x("level_scale") * x("levels")));
CROSSTALK_HALF_LIFE(log_linear_gated_delta, 12.32);
CROSSTALK_START(log_linear_gated_delta, rate_from, "0", 11.18, 0);

TEST(LogLinearGatedDeltaOracle, EqualGatesAreGatedDelta) {
  Sequence s = random_sequence(no_options(), 21, 4, 3, 1);
  s.k = unit_rows(s.k);
  s.in["log_decay"] = uniform_rows(21, 1, -1, 0, 2), s.in["beta"] = uniform_rows(21, 1, 0, 1, 3);
  s.in["level_gate"] = constant_rows(21, 16, 1);
  expect_close(read("log_linear_gated_delta", s), read("gated_delta", s));
}

TEST(LogLinearGatedDeltaOracle, WithoutErasingIsLogLinearAttention) {
  Sequence s = random_sequence(no_options(), 12, 12, 3, 4);
  for (int t = 0; t < 12; ++t) s.k[static_cast<std::size_t>(t)] = unit(12, t);  // no key is written twice
  s.in["log_decay"] = uniform_rows(12, 1, -1, 0, 5), s.in["beta"] = constant_rows(12, 1, 1);
  s.in["level_gate"] = uniform_rows(12, 16, 0, 1, 6);
  expect_close(read("log_linear_gated_delta", s), read("log_linear_attention", s));
}

}  // namespace
}  // namespace crosstalk::checks::log_linear_gated_delta_test
