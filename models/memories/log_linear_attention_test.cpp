// Log-linear attention (Guo et al. 2025, arXiv 2506.04761): its oracle, with the states of a Fenwick tree, and its laws.
// SPDX-License-Identifier: Apache-2.0
#include "models/testing/memory_test.h"

namespace crosstalk::checks::log_linear_attention_test {
namespace {

// All levels fade. At t > 0, with l - 1 the trailing zeros of t, level l takes what is in the levels below it; then
// S^0 = step_t v_t k_t^T, o_t = sum_l lambda_t^l S^l q_t.
Matrix log_linear_attention(const Sequence& s) {
  std::vector<Matrix> states(17, zeros(s.V, s.K));
  Matrix o;
  for (int t = 0; t < s.T; ++t) {
    for (Matrix& state : states) state = times(std::exp(s.number("log_decay", t)), state);
    std::size_t level = 1;
    while (t > 0 && !(t >> (level - 1) & 1)) ++level;
    for (std::size_t l = 0; t > 0 && l < level; ++l) {
      for (std::size_t v = 0; v < states[l].size(); ++v)
        states[level][v] = plus(states[level][v], 1, states[l][v]);
      states[l] = zeros(s.V, s.K);
    }
    states[0] = plus_outer(zeros(s.V, s.K), s.has("step") ? s.number("step", t) : 1, s.value(t), s.key(t));
    Vector read(static_cast<std::size_t>(s.V), 0);
    for (std::size_t l = 0; l < 16; ++l)
      read = plus(read, s.row("level_gate", t)[l], times(states[l], s.query(t)));
    o.push_back(read);
  }
  return o;
}
CROSSTALK_MEMORY_ORACLE(log_linear_attention, log_linear_attention);
CROSSTALK_GATE_LAW(log_linear_attention, log_decay,
                   x.text("write") == "one" ? mamba_law(x) : -std::exp(x("A_log")) * softplus(x("step")));
CROSSTALK_GATE_LAW(log_linear_attention, step, softplus(x("step")));
CROSSTALK_GATE_LAW(log_linear_attention, level_gate, softplus(x("level_scale") * x("levels")));
CROSSTALK_HALF_LIFE(log_linear_attention, 49.22);
CROSSTALK_START(log_linear_attention, write, "one", 9.016, 0);

TEST(LogLinearAttentionGates, StartAsTheirSource) {  // e^A = 1 .. 4 (published: 3.2, 9.9, 31, 99, 306)
  const DecayStart start =
      decay_start(input_at_start("log_linear_attention", "log_decay", {}, 4, 16, 0, 5000), true);
  EXPECT_NEAR(start.median(), 31, 2);
  EXPECT_NEAR(start.quantile(0.05), 3.2, 0.2);
  EXPECT_NEAR(start.quantile(0.95), 306, 15);
}

TEST(LogLinearAttentionOracle, EqualGatesAreMamba2) {
  Sequence s = random_sequence(no_options(), 21, 4, 3, 9);
  s.in["log_decay"] = uniform_rows(21, 1, -1, 0, 2), s.in["level_gate"] = constant_rows(21, 16, 1);
  s.in["step"] = uniform_rows(21, 1, 0, 1, 3);
  expect_close(read("log_linear_attention", s), read("mamba2", s));
}

TEST(LogLinearAttentionOracle, EqualGatesAreSimpleGla) {
  Sequence s = random_sequence(no_options(), 21, 4, 3, 1);
  s.in["log_decay"] = uniform_rows(21, 1, -1, 0, 2), s.in["level_gate"] = constant_rows(21, 16, 1);
  expect_close(read("log_linear_attention", s), read("simple_gla", s));
}

// Token 13 = 8 + 4 + 1: itself, then tokens 12, 8 to 11, and 0 to 7.
TEST(LogLinearAttentionOracle, LevelsAreTheDigitsOfATokensNumber) {
  Sequence s = random_sequence(no_options(), 14, 1, 1, 3);
  s.k = s.q = constant_rows(14, 1, 1), s.in["log_decay"] = constant_rows(14, 1, 0);
  for (int t = 0; t < 14; ++t) s.v[static_cast<std::size_t>(t)] = {std::exp2(t)};
  const auto held = [&](int level) {
    s.in["level_gate"] = Matrix(14, unit(16, level));
    return read("log_linear_attention", s)[13][0];
  };
  EXPECT_EQ(held(0), 8192);
  EXPECT_EQ(held(1), 4096);
  EXPECT_EQ(held(2), 0);
  EXPECT_EQ(held(3), 256 + 512 + 1024 + 2048);
  EXPECT_EQ(held(4), 255);
}

}  // namespace
}  // namespace crosstalk::checks::log_linear_attention_test
