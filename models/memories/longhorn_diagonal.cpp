// Longhorn as its authors run it: the implicit delta rule with the diagonal of k k^T in place of k k^T, entry by entry (Liu et
// al. 2024, arXiv 2407.14207; Cranial-XIX/longhorn@4ea1745 models/longhorn.py).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(longhorn_diagonal) {
  return {
      .summary = "the implicit delta rule entry by entry, as Longhorn was released",
      .does = "every entry of the state decays by the square of its key's channel, then adds",
      .family = Family::own_law,
      .law = R"(
    beta = sigmoid(token(V, rank = width / 16))
    D = beta / (1 + beta k^T k)
    S = (1 - D (k^2)^T) * S + (D * v) k^T
    read S q)",
      .source = "Liu et al. 2024, arXiv 2407.14207",
      .notes =
          "With keys of one channel each it is longhorn, the exact solution. The rank of W2 W1 is a sixteenth of the token's size, rounded up.",
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{"beta"}},
      .forms_state = true,
      .published = {
          .source = "; Cranial-XIX/longhorn@4ea1745 models/longhorn.py",
          .settings = "inner=true, short_conv=v, short_conv_bias=true, silu=v, key_groups=1, "
                      "biases=-out_gate, out_skip=channel, out_gate=silu",
          .expand_k = 0.5,
          .expand_v = 2,
          .lacks = {
              {"a state of 16 numbers a value channel at every width (here a quarter of the width; model.d_key = 16 model.heads sets it)",
               "the same at width 64, a larger one at larger widths"},
              {"maps that start as nn.Linear does, the output's smaller the more layers there are",
               "the first steps of training differ"}}}};
}
