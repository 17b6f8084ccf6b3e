// A state with a diagonal plus a rank-one transition: what every memory of this family is a case of. Its gates are those of
// RWKV-7 without ties (Peng et al. 2025, arXiv 2503.14456).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(dplr) {
  return {.summary = "diagonal plus low rank: any rank-one update of a decaying state",
          .does = "a diagonal decay plus any matrix of rank one",
          .family = Family::erases,
          .law = R"(
    decay = token(K)
    log_decay = -0.6065306597126334 sigmoid(decay)
    erase = token(K)
    b = unit(erase)
    rate = token(K)
    a = -(sigmoid(rate) * b)
    S = S diag(exp(log_decay)) + (S a) b^T + v k^T
    read S q)",
          .source = "as in Peng et al. 2025, arXiv 2503.14456",
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{"log_decay"}, {.name = "a", .open = Open{0, -1}}, {.name = "b", .open = Open{0, 1}}}};
}
