// Mamba's first memory: S_t = exp(-step_t e^{log_rate}) * S_{t-1} + (step_t * v_t) k_t^T entry by entry, o =
// S q (Gu and Dao 2023, arXiv 2312.00752; q, k, v are its C, B, x).
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory mamba1() {
  return {
      .name = "mamba1",
      .summary = "selective scan: every entry of the state fades at its own rate, as the token says",
      .does = "every entry of the state decays at its own rate, by a data-dependent step size",
      .family = Family::own_law,
      .equation = "S_t = exp(-step_t e^log_rate) * S_{t-1} + (step_t * v_t) phi(k_t)^T, o = S phi(q)",
      .laws = "step_t = softplus(W2 W1 token + b) for every value channel, log_rate for every entry",
      .source = "Gu and Dao 2023, arXiv 2312.00752",
      .notes =
          "The rank of W2 W1 is d_key / 16, rounded up. Rates start as U(1, K), where Mamba takes 1, 2, .., "
          "K. In `apply` log_rate is that of all heads.",
      .bounded_by_rank = true,
      .flops = flops::formed_state<14>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "step", .per = Per::value, .range = {0.05, 0.95}},
                 {.name = "log_rate", .per = Per::other, .shape = "[V,K]", .open = Open{-30}}},
      .forms_state = true,
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto step = m.input("step", [&] {
          return softplus(m.token("step", m.V, Init::inverse_softplus(1e-3, 0.1), (m.H * m.d + 15) / 16));
        });
        const auto rate = m.input("log_rate", [&] {
          return m.parameter("log_rate", {m.H, m.V * m.K}, Init::log_uniform(1, m.K));
        });
        return diagonal_read(m, q, k, {.step = step, .log_rate = rate});
      }};
}

}  // namespace crosstalk::memories
