// RWKV-4: an average of values for every channel, weighed by e^k and fading, read through a gate of what
// asks (Peng et al. 2023, arXiv 2305.13048). It keeps no matrix and there are no queries: what is read
// depends on how much has been written since, not on what is asked for.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(rwkv4) {
  return {
      .summary = "a decaying average of values for every channel, weighted by e^k; no matrix is kept",
      .does = "averages values by decaying weights, one a channel; the query only gates the result",
      .family = Family::own_law,
      .law = R"(
    channel_key = token(V)
    k = channel_key
    decay = parameter(V, start == "ramps" ? ramp("rwkv4.decay") : uniform(-5, 3))
    log_decay = -exp(decay)
    receptance = asking(V)
    bonus = parameter(V, start == "ramps" ? ramp("rwkv4.bonus") : constant(log(0.3)))
    state y[V]
    state L[V] = -1e30
    own = k + bonus
    o = beside ? y : sigmoid(L - own) * y + sigmoid(own - L) * v
    read learned ? sigmoid(receptance) * o : o
    left = L + log_decay
    L = k + softplus(left - k)
    y = sigmoid(left - k) * y + sigmoid(k - left) * v)",
      .source = "Peng et al. 2023, arXiv 2305.13048",
      .notes =
          "Kept as the average y and the logarithm L of its divisor, so that no exponential overflows. A query beside the sequence has no value of "
          "its own, hence no bonus: it reads y, and x is its embedding. In `apply` there is no q and no R; log_decay and bonus are those of all "
          "heads.",
      .options = {choice(
          "start", "drawn",
          "ramps: w and bonus start as ramps over the channels and the depth of the layer, as its authors start them; drawn: U(-5, 3) and "
          "log 0.3",
          {"drawn", "ramps"})},
      .inputs = {{.name = "k", .open = Open{0}, .range = {-0.9, 0.9}},
                 {.name = "log_decay", .per = Per::other, .shape = "[V]"},
                 {.name = "bonus", .per = Per::other, .shape = "[V]"}},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .own_token = true,
      .keeps_keys = true,
      .published = {.source = "; BlinkDL/RWKV-LM@083f950 RWKV-v4/src/model.py",
                    .settings = "memory.start=ramps, input_shift=static, input_shift_start=rwkv4",
                    .lacks = {{"keys and receptances that start at 0", "the first steps of training differ"},
                              {"biases of keys and receptances, and the starts of its value and output maps",
                               "the loss of a small model differs by 4e-4 by the biases"}}}};
}
