// mLSTM of xLSTM: S_t = f_t S_{t-1} + i_t v_t k_t^T, n_t = f_t n_{t-1} + i_t k_t, o_t = S_t q_t / max(|n_t.q_t|,
// 1) with i_t = e^{log_input} (Beck et al. 2024, arXiv 2405.04517, eqs 19 to 27).
//
// S and n, the paper's C and n, are kept times e^{-m_t}. The paper takes m_t = max(log f_t + m_{t-1}, log i_t); what
// is read is the same for any m, and here m_t is the logarithm of the sum of both, which is smooth:
//   i' = e^{log i_t - m_t}     f' = 1 - i'     o_t = S' q / max(|n'.q|, e^{-m_t})
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory mlstm() {
  return {
      .name = "mlstm",
      .summary = "gated sum rule with exponential input gates and a denominator of at least 1",
      .does = "scalar decay, exponential input gate, retrieved values divided by at least 1",
      .family = Family::adds,
      .equation = "S_t = f_t S_{t-1} + i_t v_t k_t^T, n_t = f_t n_{t-1} + i_t k_t, o = S q / max(|n.q|, 1)",
      .laws = "f_t = sigmoid(w.token + b), i_t = exp(w'.token + b'), keys divided by sqrt(K) in a model",
      .source = "Beck et al. 2024, arXiv 2405.04517",
      .notes =
          "S and n (the paper's C and n) are kept times exp(-m_t), m_t = log(exp(m_{t-1} + log f_t) "
          "+ i_t), which leaves the read as it is. The gates see the token; in xLSTM q, k and v.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {{"gate_weights",
            std::string("zero"),
            "how the weights of both gates start: 0, so that every token has the same gates at first, or "
            "as other projections (drawn)",
            0,
            0,
            {"zero", "drawn"}}},
      .inputs = {{.name = "log_decay", .symbol = "log f", .range = {-1.5, -0.01, -20}},
                 {.name = "log_input", .symbol = "log i"}},
      .states = {"S", "n", "m"},
      .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t) { return K * (V + 1) + 1; },
      .build =
          [](auto& m) {
            auto [q, k] = features(m);
            const Through weights(0, MapKind::affine, m.text("gate_weights") == "zero" ? 0 : 1);
            const auto log_f = m.input("log_decay", [&] {
              // b from 3 to 6 over the heads
              const int H = m.H;
              const auto b = m.constant([H](int h) { return H == 1 ? 3.0 : 3.0 + 3.0 * h / (H - 1); });
              return log_sigmoid(b + m.token("forget_gate", 1, Init::constant(0), weights));
            });
            const auto log_i =
                m.input("log_input", [&] { return m.token("input_gate", 1, Init::normal(0.1), weights); });
            if (m.learned()) k = (1 / std::sqrt(static_cast<double>(m.K))) * k;
            return stabilised_read(m, q, {.key = k, .log_decay = log_f}, log_i, "n");
          },
      .published =
          {
              .source = "Beck et al. 2024, arXiv 2405.04517; NX-AI/xlstm@032a6fb xlstm/blocks/mlstm/layer.py",
              .set = {{"model.short_conv", "qk"},
                      {"model.short_conv_bias", true},
                      {"model.silu", "qk"},
                      {"model.biases", "-out_gate"},
                      {"model.out_norm", "group"},
                      {"model.out_norm_bias", false},
                      {"model.out_gate", "silu"}},
              .expand_k = 2,
              .expand_v = 2,
              .lacks = "the projection before the convolution, block-diagonal maps of it, and the skip of "
                       "what is convolved",
          }};
}

}  // namespace crosstalk::memories
