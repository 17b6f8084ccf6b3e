// HGRN2: a forget gate a key channel, and what it lets go is the key (Qin et al. 2024, arXiv 2404.07904, eq. 5).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory hgrn2() {
  return {
      .name = "hgrn2",
      .summary = "gated sum rule whose keys are what its forget gates let go",
      .does = "decays every key channel by a data-dependent rate of its own, then adds; the key is 1 - decay",
      .family = Family::adds,
      .law = R"(
    forget_gate = token(K)
    log_decay = lower_bound == 0 ? log_sigmoid(forget_gate) : log(lower_bound + (1 - lower_bound) sigmoid(forget_gate))
    S = S diag(exp(log_decay)) + v (1 - exp(log_decay))^T
    read S q)",
      .source = "Qin et al. 2024, arXiv 2404.07904",
      .notes =
          "It has no keys of its own. The paper's q is silu(W' token), and l grows from layer to layer, from 0.",
      .options = {{.name = "lower_bound",
                   .default_value = 0.0,
                   .help = "what a forget gate is at least (l)",
                   .min = 0,
                   .max = 0.999,
                   .tried = {0.0, 0.4}}},
      .inputs = {{"log_decay"}},
      .own_keys = false,
      .published = {
          .source =
              "Qin et al. 2024, arXiv 2404.07904; fla-org/flash-linear-attention@bc3b101d fla/layers/hgrn2.py",
          .set = {{"model.silu", "q"}, {"model.biases", "-forget_gate"}, {"model.out_norm", "rms_all"}},
          .eps_times = HeadChannels::keys,
          .parameters = 16448,
          .lacks = "lower bounds of the gates that are learned and grow from layer to layer (0 in the first)",
      }};
}

}  // namespace crosstalk::memories
