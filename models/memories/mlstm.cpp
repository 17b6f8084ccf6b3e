// mLSTM of xLSTM: S_t = f_t S_{t-1} + i_t v_t k_t^T, n_t = f_t n_{t-1} + i_t k_t, o_t = S_t q_t / max(|n_t.q_t|,
// 1) with i_t = e^{log_input} (Beck et al. 2024, arXiv 2405.04517, eqs 19 to 27).
//
// S and n, the paper's C and n, are kept times e^{-m_t}. The paper takes m_t = max(log f_t + m_{t-1}, log i_t); what
// is read is the same for any m, and here m_t is the logarithm of the sum of both, which is smooth:
//   i' = e^{log i_t - m_t}     f' = 1 - i'     o_t = S' q / max(|n'.q|, e^{-m_t})
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mlstm) {
  return {
      .summary = "gated sum rule with exponential input gates and a denominator of at least 1",
      .does = "scalar decay, exponential input gate, retrieved values divided by at least 1",
      .family = Family::adds,
      .law = R"(
    forget_gate = token(bias = 0, weights = gate_weights == "zero" ? 0 : 1)
    log_decay = log_sigmoid((heads == 1 ? 3 : 3 + 3 head / (heads - 1)) + forget_gate)
    input_gate = token(bias = normal(0.1), weights = gate_weights == "zero" ? 0 : 1)
    log_input = input_gate
    short = learned ? (1 / sqrt(keys)) k : k
    state n[K]
    state m[1] = -1e30
    left = m + log_decay
    m = max(left, log_input)
    S = exp(left - m) S + exp(log_input - m) v short^T
    n = exp(left - m) n + exp(log_input - m) short
    read inverse(max(abs(n^T q), exp(-m))) S q)",
      .source = "Beck et al. 2024, arXiv 2405.04517",
      .notes =
          "S and n (the paper's C and n) are kept times exp(-m), which leaves the read as it is: "
          "S_t = f_t S_{t-1} + i_t v_t k_t^T, o = S q / max(|n.q|, 1). The gates see the token; in xLSTM's block (model.blocks) q, k and v.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {choice(
          "gate_weights", "zero",
          "how the weights of both gates start: 0, so that every token has the same gates at first, or as other projections (drawn)",
          {"zero", "drawn"})},
      .inputs = {{"log_decay"}, {"log_input"}},
      .states = {"S", "n", "m"},
      .published = {.source = "; NX-AI/xlstm@032a6fb xlstm/blocks/mlstm/layer.py",
                    .settings = "blocks=4, short_conv_bias=true, biases=-up -out_gate, out_skip=convolved, "
                                "projection_start=small, out_norm=group, out_norm_bias=false, "
                                "out_gate=silu",
                    .expand_k = 2,
                    .expand_v = 2,
                    .parameters = 28548}};
}
