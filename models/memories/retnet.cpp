// RetNet's retention (Sun et al. 2023, arXiv 2307.08621, eq. 6).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(retnet) {
  return {
      .summary = "sum rule that forgets at a constant rate, one a head",
      .does = "decays the whole state by a constant scalar, one a head, then adds",
      .family = Family::adds,
      .law = R"(
    log_decay = log(1 - 2^(-5 - head))
    S = exp(log_decay) S + v k^T
    read S q)",
      .source = "Sun et al. 2023, arXiv 2307.08621",
      .notes = "head counts from 0.",
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "log_decay", .range = {-1.5, -0.01, -20}}},
      .published = {
          .source = "; microsoft/torchscale@05a9628 torchscale/component/multiscale_retention.py",
          .settings = "rotary=true, biases=-out_gate, projection_start=xavier, out_norm=rms, "
                      "out_norm_eps=1e-6, out_norm_gain=off, out_gate=silu",
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .parameters = 32768,
          .lacks = {
              {"the division of a row's weights by their sum", "the norm undoes it but for its eps"},
              {"rotations whose frequencies go to the last one inclusive, 10000^-linspace(0, 1, n) (here 10000^-(c / n))",
               "the loss of a small model on equal weights differs by 4e-3"}}}};
}
