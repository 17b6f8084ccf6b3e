// RWKV-4: an average of values for every channel, weighed by e^k and fading, read through a gate of what
// asks (Peng et al. 2023, arXiv 2305.13048). It keeps no matrix and there are no queries: what is read
// depends on how much has been written since, not on what is asked for.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"
#include "models/parts/ramps.h"

namespace crosstalk::memories {

Memory rwkv4() {
  return {
      .name = "rwkv4",
      .summary = "a decaying average of values for every channel, weighted by e^k; no matrix is kept",
      .does = "averages values by decaying weights, one a channel; the query only gates the result",
      .family = Family::own_law,
      .equation = "o_t = (sum_{j<t} e^{(t-1-j) g + k_j} v_j + e^{bonus + k_t} v_t) / (the same without v)",
      .laws =
          "times sigmoid(R x), x the token that asks; g = -e^w and bonus for every value channel, "
          "k_t = W token + b of the values' size",
      .source = "Peng et al. 2023, arXiv 2305.13048",
      .notes =
          "Kept as the average y and the logarithm L of its divisor, so that no exponential "
          "overflows. A query beside the sequence has no value of its own, hence no bonus: it reads "
          "y, and x is its embedding. In `apply` there is "
          "no q and no R; log_decay and bonus are those of all heads.",
      .flops = [](const Options&, double, double V, double T, double) { return 30 * V * T; },
      .options = {{"start",
                   std::string("drawn"),
                   "ramps: w and bonus start as ramps over the channels and the depth of the layer, as its "
                   "authors start "
                   "them; drawn: U(-5, 3) and log 0.3",
                   0,
                   0,
                   {"drawn", "ramps"}}},
      .inputs = {{.name = "k", .per = Per::value, .open = Open{0}, .range = {-0.9, 0.9}},
                 {.name = "log_decay",
                  .per = Per::other,
                  .shape = "[V]",
                  .symbol = "g",
                  .range = {-1.5, -0.01, -20}},
                 {.name = "bonus", .per = Per::other, .shape = "[V]"},
                 {.name = "y0", .per = Per::other, .optional = true, .shape = "[B,H,V]"},
                 {.name = "l0", .per = Per::other, .optional = true, .shape = "[B,H,V]"}},
      .states = {"y", "L"},
      .own_queries = false,
      .own_keys = false,
      .forms_state = true,
      .own_token = true,
      .keeps_keys = true,
      .state = [](const Options&, std::int64_t, std::int64_t V, std::int64_t) { return 2 * V; },
      .build =
          [](auto& m) {
            auto k = m.input("k", [&] { return m.token("channel_key", m.V); });
            const bool ramps = m.text("start") == "ramps";
            const RwkvStarts start = rwkv4_starts(m.H * m.V, m.depth());
            const auto g = m.input("log_decay", [&] {
              const Init law = ramps ? Init::listed(start.decay) : Init{Init::Law::uniform, -5, 3};
              return -exp(m.parameter("decay", {m.H, m.V}, law));
            });
            decltype(k) bonus = {};
            if (m.at_tokens()) {
              bonus = m.input("bonus", [&] {
                return m.parameter("bonus", {m.H, m.V},
                                   ramps ? Init::listed(start.bonus) : Init::constant(std::log(0.3)));
              });
            }
            const auto average = wkv_read(m, k, g, bonus);
            return m.learned() ? sigmoid(m.asking("receptance", m.V)) * average : average;
          },
      .published =
          {
              .source = "Peng et al. 2023, arXiv 2305.13048; BlinkDL/RWKV-LM@083f950 RWKV-v4/src/model.py",
              .set = {{"memory.start", "ramps"},
                      {"model.input_shift", "static"},
                      {"model.input_shift_start", "rwkv4"}},
              .lacks = "keys and receptances that start at 0",
          }};
}

}  // namespace crosstalk::memories
