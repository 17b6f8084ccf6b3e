// KDA with signed gates (Complex KDA, OpenEuroLLM/ComplexKDA@03af970; signed_exp: as in Grazzi et al. 2024, arXiv 2411.12537).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/no_effect.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(complex_kda) {
  const OptionSpec start = {
      "decay_start", 0.1,
      "the weights W2 of decays start as the model's do, times this: the authors' code has 0.1 where "
      "signs are drawn (signed_sigmoid2) and 1 elsewhere",
      0.001, 10};
  return {
      .summary = "KDA whose decays may be negative: key channels that change sign",
      .does = "decays every key channel by a factor of either sign, then the delta rule: channels that flip",
      .family = Family::erases,
      .law = R"(
    beta = beta_max sigmoid(token)
    A_log = parameter(gate == "signed_exp" ? log_uniform(1, 16) : constant(0))
    decay = token(K, rank = d, weights = gate == "signed_exp" ? 1 : decay_start, bias = gate == "signed_exp" ? inverse_softplus(1e-3, 0.1) : gate == "sigmoid" ? logit_step(1e-3, 0.1) : signed_step(1e-3, 0.1))
    u = decay * fill(exp(A_log), K)
    signed_decay = gate == "signed_exp" ? 2 exp(-(exp(A_log) softplus(decay))) - 1 : gate == "sigmoid" ? exp(-5 sigmoid(u)) : 0.006737946999085467 (u * inverse(abs(u))) + 0.993262053000914533 tanh(0.5 u)
    S = S diag(signed_decay)
    S += beta (v - S k) k^T
    read S q)",
      .source =
          "Complex KDA, OpenEuroLLM/ComplexKDA@03af970; Kimi team 2025, arXiv 2510.26692; signed_exp: the "
          "gates of Grazzi et al. 2024, arXiv 2411.12537",
      .notes =
          "Signs are multiplied into keys and queries, where they cost nothing. Decays start with either sign, half-lives between 7 and 700 tokens; "
          "those of signed_exp start positive, nearly all.",
      .parts = {feature_map("identity"), key_norm("l2"), beta_max()},
      .options =
          {choice(
               "gate", "signed_sigmoid2",
               "law of the decay: of either sign and at least e^-5 (signed_sigmoid2), positive and at least "
               "e^-5 (sigmoid), or 2 e^g - 1 with Mamba-2's g (signed_exp)",
               {"signed_sigmoid2", "sigmoid", "signed_exp"}),
           start},
      .inputs = {{.name = "signed_decay", .range = {-1, 1, 1e-9}}, {"beta"}},
      .check =
          [start](Options& o) {
            if (o.get_string("memory.gate") == "signed_exp")
              refuse_without_effect(o, "memory", {start}, start.name, "with memory.gate = \"signed_exp\"",
                                    "choose another gate");
          },
      .published = {
          .source = "OpenEuroLLM/ComplexKDA@03af970 fla/layers/complex_kda_layer.py",
          .settings = convolved_layer("normal", "biases=-beta", "low rank"),
          .eps_times = HeadChannels::keys,
          .parameters = 25634,
          .lacks = {
              {"the start of convolutions in its models, which could not be read (here that of flash-linear-attention, whose layers it extends)",
               "its word problems have no convolution"},
              {"decays whose signs start as its source ships them (here half of them negative)",
               "memory.gate and its start decide what is tracked at first"}}}};
}
