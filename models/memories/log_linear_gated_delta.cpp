// Log-linear Gated DeltaNet: Gated DeltaNet with a state for every level of a Fenwick tree, each erased as the whole would
// be, o_t = sum_l lambda_t^l S_t^l q_t (Guo et al. 2025, arXiv 2506.04761).
// In C++: a token has as many states as its number has digits, and a law's are always the same.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"
#include "models/parts/levels.h"

CROSSTALK_MEMORY(log_linear_gated_delta) {
  return {
      .summary = "gated delta rule with log T states: the far past in ever larger blocks",
      .does =
          "decays by a data-dependent scalar, then the delta rule, in log T states: older tokens in ever larger blocks",
      .family = Family::erases,
      .equation =
          "S_t = alpha_t S_{t-1} (I - beta_t k_t k_t^T) + beta_t v_t k_t^T, kept in parts S^l: token t alone (l = 0) and the blocks of 2^(l-1) "
          "tokens before it that the binary digits of t say; o = sum_l lambda_t^l S^l q",
      .laws = "lambda_t = softplus(L * (W token + b)); alpha_t, beta_t as in gated_delta",
      .source = "Guo et al. 2025, arXiv 2506.04761",
      .bounded_by_rank = true,
      .flops = flops::weights<14>,
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "beta", .range = {0.05, 0.95}},
                 {.name = "level_gate",
                  .per = Per::other,
                  .shape = "[B,T,H,L]",
                  .symbol = "lambda",
                  .range = {0.05, 0.95}}},
      .states = {},
      .state = level_states,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto beta = beta_gate(m);
            const auto g = mamba_decay(m);
            return read_by_levels(m, q, {.key = k, .gain = beta, .log_decay = g, .erase = Erase::delta},
                                  level_gates(m));
          },
      .published = {
          .source = "; HanGuo97/log-linear-attention@7f86441 hattention/modeling_h_gated_deltanet.py",
          .settings =
              convolved_layer("normal", "biases=-beta -levels -out_gate, memory.rate_from=0.0", "silu"),
          .expand_v = 2,
          .eps_times = HeadChannels::keys,
          .undecayed = {"A_log", "decay.bias", "level_scale"},
          .lacks = {
              {"15 levels (here 16)", "the last level is of tokens more than 16,384 back alone"},
              {"queries that are not divided by the root of their size",
               "the norm behind the read undoes it but for its eps: the loss of a small model differs by 4e-3"}}}};
}
