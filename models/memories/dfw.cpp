// Fast weights with decays on both sides: S_t = Diag(alpha^v_t) S_{t-1} Diag(alpha^k_t) + v_t k_t^T, o_t = S_t q_t
// (Mao 2022, arXiv 2210.04243).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory dfw() {
  return {
      .name = "dfw",
      .summary = "sum rule with a decay for every key channel and every value channel",
      .does = "decays key channels and value channels, then adds",
      .family = Family::adds,
      .equation = "S_t = Diag(alpha^v_t) S_{t-1} Diag(alpha^k_t) + v_t phi(k_t)^T, o = S phi(q)",
      .laws = "alpha^k_t = sigmoid(W token + b), alpha^v_t = sigmoid(W' token + b')",
      .source = "Mao 2022, arXiv 2210.04243",
      .notes =
          "A row of the state is a recurrence of its own, so a sequence costs the product of both "
          "sizes at every token, in every model.",
      .bounded_by_rank = true,
      .flops = flops::formed_state<14>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs =
          {{.name = "log_decay", .per = Per::key, .symbol = "log alpha^k", .range = {-1.5, -0.01, -20}},
           {.name = "log_decay_v", .per = Per::value, .symbol = "log alpha^v", .range = {-1.5, -0.01, -20}}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto of_keys = m.input("log_decay", [&] { return log_sigmoid(m.token("decay", m.K)); });
        const auto of_values =
            m.input("log_decay_v", [&] { return log_sigmoid(m.token("value_decay", m.V)); });
        return read(m, q, {.key = k, .log_decay = of_keys, .value_log_decay = of_values});
      }};
}

}  // namespace crosstalk::memories
