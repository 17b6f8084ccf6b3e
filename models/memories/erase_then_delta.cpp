// Erase-then-Delta Attention: takes out what stands at an address of its own, then writes by the delta rule (arXiv 2606.26560, eq. 8).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(erase_then_delta) {
  return {
      .summary = "KDA that first erases at an address of its own",
      .does = "decays every key channel, erases along a direction of its own, then the delta rule",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    gamma = sigmoid(token)
    erase_key = unit(token(K, rank = 16))
    A_log = parameter(log_uniform(1, 16))
    decay = token(K, rank = 16, bias = inverse_softplus(1e-3, 0.1))
    log_decay = 5 exp(-(exp(A_log) softplus(decay) / 5)) - 5
    S = S diag(exp(log_decay))
    S -= gamma (S erase_key) erase_key^T
    S += beta (v - S k) k^T
    read S q)",
      .source = "Li et al. 2026, arXiv 2606.26560",
      .notes = "gamma = 0 is KDA with another bounded decay, log_decay = 5 (e^(-e^A step / 5) - 1).",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .inputs = {{.name = "log_decay", .range = {-1.5, -0.01, -20}},
                 {"beta"},
                 {.name = "gamma", .open = Open{0}},
                 {.name = "erase_key", .unit = true}},
      .forms_state = true,
      .published = {.source = "Li et al. 2026, arXiv 2606.26560, figure 1 and appendix A",
                    .settings = "biases=-beta -gamma -out_gate, out_norm=rms, out_norm_eps=1e-6, "
                                "out_norm_gain=shared, out_gate=sigmoid",
                    .undecayed = {"A_log", "decay.bias"},
                    .lacks = {{"twice as many heads of values as of keys", "fewer values a key"},
                              {"convolution, biases and functions around it, of which its paper says nothing",
                               "the layer is our choice there"}}}};
}
