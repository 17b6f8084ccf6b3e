// Softmax attention of normalised queries and keys: logits rms(q).rms(k_t) / sqrt(d), with gains, which is a cosine times
// sqrt(d) and cannot grow with the lengths (Henry et al. 2020, arXiv 2010.04245, with L2; RMSNorm and gains as in fla/layers/attn.py).
// In C++: it weighs all tokens so far, and the states of a law have a fixed size.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(qk_norm) {
  return {
      .summary = "softmax attention of normalised queries and keys",
      .does = "softmax attention with normalised queries and keys",
      .family = Family::keeps,
      .equation =
          "o = sum_t softmax_t((a * rms(q)).(b * rms(k_t)) / sqrt(d)) v_t, rms(x) = x / sqrt(mean x^2 + eps), a and b gains of the channels",
      .source =
          "Henry et al. 2020, arXiv 2010.04245 (there L2 and a learned scale); with RMSNorm and gains as in "
          "fla-org/flash-linear-attention@bc3b101d fla/layers/attn.py",
      .notes = "Gains start at 1.",
      .order_free = true,
      .inputs = {{.name = "q_gain", .per = Per::head_key, .optional = true, .symbol = "a"},
                 {.name = "k_gain", .per = Per::head_key, .optional = true, .symbol = "b"}},
      .projection_init = ProjectionInit::xavier,
      .build =
          [](auto& m) {
            const auto normalised = [&](auto x, const char* gain) {
              x = rms(x, m.norm_eps());
              if (!m.learned() && !m.has_input(gain)) return x;
              return x * m.input(gain, [&] { return m.parameter(gain, {m.H, m.K}, Init::constant(1)); });
            };
            const auto [q, k] = features(m);
            return m.mix(attend(m, normalised(q, "q_gain"), normalised(k, "k_gain"), {.scale = m.scale()}));
          },
      .published = {.source = "fla-org/flash-linear-attention@bc3b101d fla/layers/attn.py",
                    .settings = "rotary=true",
                    .lacks = {{"gains that all heads share (here each has its own)",
                               "more weights, which can say the same"},
                              {"norms in front of the rotation, with an eps of 1e-6 (here behind it, 1e-5)",
                               "the loss of a small model differs by 2e-4"}}}};
}
