// RWKV-7 (Peng et al. 2025, arXiv 2503.14456); in a model k is k * (1 + (in_context_rate - 1) * c).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(rwkv7) {
  return {
      .summary = "erases along one key and writes along another, with rates for every channel",
      .does = "erases along one key at rates a channel, writes along another",
      .family = Family::erases,
      .law = R"(
    decay = start == "ramps" ? token(K, rank = rank == "width" ? rwkv7_rank : d, through = "tanh", bias = ramp("rwkv7.decay")) : token(K, rank = rank == "width" ? rwkv7_rank : d)
    log_decay = -0.6065306597126334 sigmoid(decay)
    erase_scale = parameter(K, start == "ramps" ? ramp("rwkv7.erase_scale") : constant(0.85))
    erase_key = unit(k * erase_scale)
    rate = start == "ramps" ? token(K, rank = rank == "width" ? rwkv7_rank : d, bias = ramp("rwkv7.rate")) : token(K, rank = rank == "width" ? rwkv7_rank : d)
    in_context_rate = sigmoid(rate)
    key_mix = parameter(K, constant(start == "ramps" ? 1.02 : 1))
    written_key = learned ? k * (1 + (in_context_rate - 1) * key_mix) : k
    S = S diag(exp(log_decay)) - (S erase_key) (in_context_rate * erase_key)^T + v written_key^T
    read S q)",
      .source = "Peng et al. 2025, arXiv 2503.14456",
      .parts = {feature_map("identity"), key_norm("none")},
      .options =
          {choice(
               "start", "ramps",
               "ramps: the decay goes through tanh, and its bias, that of a, u and c start as ramps over the channels and the depth of the layer, as "
               "its authors start them; constants: the decay is linear, u starts as 0.85 and c as 1, biases as the model's",
               {"ramps", "constants"}),
           choice(
               "rank", "head",
               "rank of the maps of decays and of rates: the size of a head's keys (head), or one that grows with the "
               "width, 2.5 sqrt(model.width) K / 64 in multiples of 32 (width), as its authors have it",
               {"head", "width"})},
      .inputs = {{"log_decay"}, {.name = "erase_key", .open = Open{0, 1}}, {"in_context_rate"}},
      .read_at_all = true,
      .published = {
          .source = fla_layers("rwkv7.py"),
          .settings = "input_shift=static, input_shift_start=rwkv7, biases=-out_gate, "
                      "out_norm=group, bonus=true, out_gate=lora, out_gate_rank=-2, "
                      "memory.rank=width, value_residual=true, key_start=0.1, "
                      "projection_start=orthogonal, out_norm_start=depth, out_deviation=zero",
          .eps_times = HeadChannels::values,
          .parameters = 29504,  // of the first layer; a later one has 4160 more, of the value residual
          .lacks = {
              {"ranks 64, 64, 128 and 16 of the maps of decays, rates, gates and values, as fla's model has them at every width (here those of "
               "fla's layer, which grow with the width: 32 at width 64)",
               "other numbers of weights: memory.rank and model.out_gate_rank set ranks"}}}};
}
