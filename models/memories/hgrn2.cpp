// HGRN2: a forget gate a key channel, and what it lets go is the key (Qin et al. 2024, arXiv 2404.07904, eq. 5).
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(hgrn2) {
  return {
      .summary = "gated sum rule whose keys are what its forget gates let go",
      .does = "decays every key channel by a data-dependent rate of its own, then adds; the key is 1 - decay",
      .family = Family::adds,
      .law = R"(
    forget_gate = token(K)
    bound = parameter(K, constant(odds == 0 ? 0 : log(odds)))
    least = bounds == "layers" ? sigmoid(bound) : lower_bound
    bounded = log(least + (1 - least) * sigmoid(forget_gate))
    log_decay = bounds == "layers" ? (odds == 0 ? log_sigmoid(forget_gate) : bounded) : lower_bound == 0 ? log_sigmoid(forget_gate) : bounded
    S = S diag(exp(log_decay)) + v (1 - exp(log_decay))^T
    read S q)",
      .source = "Qin et al. 2024, arXiv 2404.07904",
      .notes =
          "It has no keys of its own. The paper's q is silu(W' token), and l grows from layer to layer, from 0 (bounds \"layers\").",
      .options =
          {number("lower_bound", 0.0, "what a forget gate is at least (l)", 0, 0.999, {0.0, 0.4}),
           choice(
               "bounds", "same",
               "same: lower_bound in every layer; layers: 0 in the first layer of a model, and in a later one a learned number a "
               "channel, which starts at the share of layers before it",
               {"same", "layers"})},
      .inputs = {{"log_decay"}},
      .own_keys = false,
      .check =
          [](Options& o) {
            if (o.get_string("memory.bounds") == "layers" && o.get_double("memory.lower_bound") != 0)
              throw OptionError(
                  "memory.lower_bound",
                  "memory.lower_bound has no effect with memory.bounds = \"layers\", where every layer "
                  "learns its own; leave one of them out");
            if (!has_later_layers(o)) o.set("memory.bounds", "same");
          },
      .published = {
          .source = fla_layers("hgrn2.py"),
          .settings = "memory.bounds=layers, silu=q, biases=-forget_gate, out_norm=rms_all",
          .eps_times = HeadChannels::keys,
          .parameters = 16448,
          .lacks = {
              {"a softmax over all layers whose sums are the bounds, so that they never fall from layer to layer",
               "of two layers it is the same law; of more, bounds are learned freely from the same start, 0, 1/L, 2/L and so on"}}}};
}
