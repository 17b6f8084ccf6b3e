// HGRN2: S_t = S_{t-1} Diag(alpha_t) + v_t (1 - alpha_t)^T, o_t = S_t q_t (Qin et al. 2024, arXiv 2404.07904,
// eq. 5): a forget gate a key channel, and what it lets go is the key.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory hgrn2() {
  return {
      .name = "hgrn2",
      .summary = "gated sum rule whose keys are what its forget gates let go",
      .does = "decays every key channel by a data-dependent rate of its own, then adds; the key is 1 - decay",
      .family = Family::adds,
      .equation = "S_t = S_{t-1} Diag(alpha_t) + v_t (1 - alpha_t)^T, o = S q",
      .laws = "alpha_t = l + (1 - l) sigmoid(W token + b), l = lower_bound",
      .source = "Qin et al. 2024, arXiv 2404.07904",
      .notes =
          "It has no keys of its own. The paper's q is silu(W' token), and l grows from layer to "
          "layer, from 0.",
      .bounded_by_rank = true,
      .flops = flops::weights<10>,
      .options = {{.name = "lower_bound",
                   .default_value = 0.0,
                   .help = "what a forget gate is at least (l)",
                   .min = 0,
                   .max = 0.999,
                   .tried = {0.0, 0.4}}},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}}},
      .own_keys = false,
      .build =
          [](auto& m) {
            const auto q = features(m).q;
            const auto g = m.input("log_decay", [&] {
              const double low = m.number("lower_bound");
              const auto x = m.token("forget_gate", m.K);
              return low == 0 ? log_sigmoid(x) : log(low + sigmoid(x, 1 - low));
            });
            return read(m, q, {.key = expm1(g, -1), .log_decay = g});
          },
      .published = {
          .source = "Qin et al. 2024, arXiv 2404.07904; fla-org/flash-linear-attention@bc3b101d "
                    "fla/layers/hgrn2.py",
          .set = {{"model.silu", "q"}, {"model.biases", "-forget_gate"}, {"model.out_norm", "rms_all"}},
          .eps_times = HeadChannels::keys,
          .parameters = 16448,
          .lacks = "lower bounds of the gates that are learned and grow from layer to layer (0 in the first)",
      }};
}

}  // namespace crosstalk::memories
