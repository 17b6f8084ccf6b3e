// Mamba's first memory, entry by entry (Gu and Dao 2023, arXiv 2312.00752; q, k, v are its C, B, x).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mamba1) {
  return {
      .summary = "selective scan: every entry of the state decays at its own data-dependent rate",
      .does = "every entry of the state decays at its own rate, by a data-dependent step size",
      .family = Family::own_law,
      .law = R"(
    step = softplus(token(V, rank = (step_rank == "keys" ? heads d : width) / 16, bias = inverse_softplus(1e-3, 0.1)))
    log_rate = parameter(V, K, rates == "drawn" ? log_uniform(1, keys) : ramp("counted"))
    A = exp(-(diag(step) exp(log_rate)))
    S = (eigenvalues == "either" ? 2 A - 1 : A) * S + (step * v) k^T
    read S q)",
      .source =
          "Gu and Dao 2023, arXiv 2312.00752; eigenvalues of either sign: Grazzi et al. 2024, arXiv 2411.12537",
      .notes =
          "The rank of W2 W1 is d_key / 16, rounded up; Mamba's is that of the token, and its rates start as 1, 2, .., K. In `apply` log_rate is "
          "that of all heads.",
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {choice("rates", "drawn",
                  "how e^log_rate starts: U(1, K) (drawn), or 1, 2, .. K over the key channels (counted)",
                  {"drawn", "counted"}),
           choice("step_rank", "keys",
                  "the size that the rank of W2 W1 is a sixteenth of: that of all keys, or of the token",
                  {"keys", "token"}),
           choice(
               "eigenvalues", "positive",
               "of A_t: between 0 and 1, or of either sign, 2 A_t - 1 in place of A_t, which a model needs to count modulo 2",
               {"positive", "either"})},
      .inputs = {{"step"}, {.name = "log_rate", .per = Per::other, .shape = "[V,K]", .open = Open{-30}}},
      .forms_state = true,
      .published = {
          .source =
              "Gu and Dao 2023, arXiv 2312.00752; fla-org/flash-linear-attention@bc3b101d fla/layers/mamba.py",
          .settings = "inner=true, short_conv=v, short_conv_bias=true, silu=v, key_groups=1, "
                      "memory.rates=counted, memory.step_rank=token, biases=-out_gate, "
                      "out_skip=channel, out_gate=silu",
          .expand_k = 0.5,
          .expand_v = 2,
          .parameters = 32640,
          .undecayed = {"log_rate", "out_skip"},
          .lacks = {
              {"the start of the weights of its steps, U(-1/sqrt(rank), 1/sqrt(rank)) (here as all weights)",
               "steps differ less from token to token at the start"},
              {"a state of 16 numbers a value channel at every width (here a quarter of the width; model.d_key = 16 model.heads sets it)",
               "the same at width 64 and two heads, a larger one at larger widths"},
              {"maps that start as nn.Linear does, the output's smaller the more layers there are",
               "the first steps of training differ"}}}};
}
