// RWKV-6 (Peng et al. 2024, arXiv 2404.05892). A query beside the sequence reads S_T: it has no value of its own, hence no bonus.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(rwkv6) {
  return {
      .summary =
          "sum rule with a decay for every key channel; a token reads before it writes, and itself by a bonus",
      .does = "decay by key channels, but retrieves before it writes, and the current token with a bonus",
      .family = Family::adds,
      .law = R"(
    decay = lora == "tanh" ? token(K, rank = 64, through = "tanh", weights = 0, bias = start == "ramps" ? ramp("rwkv6.decay") : uniform(-6, -1)) : token(K, rank = d, bias = start == "ramps" ? ramp("rwkv6.decay") : uniform(-6, -1))
    log_decay = -exp(decay)
    bonus = parameter(K, start == "ramps" ? ramp("rwkv6.bonus") : uniform(0.5))
    read S q + v ((bonus * k)^T q)
    S = S diag(exp(log_decay)) + v k^T)",
      .source = "Peng et al. 2024, arXiv 2404.05892",
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {choice(
               "start", "drawn",
               "ramps: bias of the decay and bonus start as ramps over the channels and the depth of the layer, as its authors start them; "
               "drawn: U(-6, -1) and U(-0.5, 0.5)",
               {"drawn", "ramps"}),
           choice(
               "lora", "linear",
               "what the projection of decays goes through on its way: linear, through as many numbers as a head's key; tanh, through 64, with "
               "weights that start at 0, as its authors have it",
               {"linear", "tanh"})},
      .inputs = {{"log_decay"}, {"bonus"}},
      .published = {
          .source = "; BlinkDL/RWKV-LM@033ce84 RWKV-v5/src/model.py",
          .settings = "memory.start=ramps, memory.lora=tanh, input_shift=token, "
                      "input_shift_start=rwkv4, biases=-out_gate, out_norm=group, "
                      "out_norm_eps=64e-5, out_gate=silu",
          .lacks = {
              {"orthogonal starts of its maps, an output map that starts at 0, gains of the norm that grow with the layer, and the other factor of its small maps at 0",
               "the first steps of training differ; trained weights mean the same"}}}};
}
