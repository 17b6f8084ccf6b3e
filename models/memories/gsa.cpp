// Gated slot attention: two recurrences over slots with a softmax between them (Zhang et al. 2024, arXiv 2409.07146).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gsa) {
  return {
      .summary =
          "softmax attention over slots with data-dependent decays, which hold averages of keys and values",
      .does =
          "decays each slot by a data-dependent rate of its own and adds with weight 1 - decay (gated slot attention)",
      .family = Family::adds,
      .law = R"(
    decay = token(slots)
    log_decay = 0.125 log_sigmoid(decay)
    state A[slots, K]
    state C[V, slots]
    A = diag(exp(log_decay)) A + (1 - exp(log_decay)) k^T
    C = C diag(exp(log_decay)) + v (1 - exp(log_decay))^T
    read C softmax(A q))",
      .source = "Zhang et al. 2024, arXiv 2409.07146",
      .notes = "Products of slots and queries are not scaled.",
      .flops = [](const Options& o, double K, double V, double T,
                  double) { return 20 * static_cast<double>(o.get_int("memory.slots")) * (K + V) * T; },
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {number("slots", 64, "slots of a head: rows of A and columns of C", 1, 4096, {2, 5})},
      .inputs = {{.name = "log_decay", .per = Per::other, .shape = "[B,T,H,S]", .open = Open{-0.1}},
                 {.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,S,K]"},
                 {.name = "c0", .per = Per::other, .optional = true, .shape = "[B,H,V,S]"}},
      .forms_state = true,
      .letters = {{'S', "slots"}},
      .published = {.source = fla_layers("gsa.py"),
                    .settings = "silu=qkv, biases=-decay, out_act=silu, out_norm=rms_all",
                    .parameters = 24640}};
}
