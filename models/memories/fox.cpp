// Forgetting transformer: logits + sum of log f between the tokens, f_t = sigmoid(w.x_t + b); the bias is not
// scaled (Lin et al. 2025, arXiv 2503.02130).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(fox) {
  return {
      .summary = "softmax attention that forgets as the tokens say",
      .does = "softmax attention with a data-dependent forget gate on the logits",
      .family = Family::keeps,
      .equation = "o_t = sum_j softmax_j(q_t.k_j / sqrt(d) + sum_{s=j+1..t} log f_s) v_j",
      .laws = "f_s = sigmoid(w.token + b)",
      .source = "Lin et al. 2025, arXiv 2503.02130",
      .inputs = {{.name = "log_decay", .symbol = "log f", .range = {-1.5, -0.01, -20}}},
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto g = m.input("log_decay", [&] { return log_sigmoid(m.token("forget")); });
            return m.mix(attend(m, q, k, {.scale = m.scale()}, g));
          },
      .published = {
          .source =
              "; zhixuan-lin/forgetting-transformer@246d5e3 src/forgetting_transformer/model/forgetting_transformer",
          .settings = "token_shift=kv, token_shift_law=head, qk_norm=head, out_norm=rms, "
                      "out_norm_eps=1e-6, biases=-shift_k -shift_v -out_gate, out_gate=sigmoid",
          .parameters = 21058}};
}
