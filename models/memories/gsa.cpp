// Gated slot attention: two recurrences over slots with a softmax between them, A_t = Diag(alpha_t) A_{t-1} + (1 - alpha_t)
// k_t^T, C_t = C_{t-1} Diag(alpha_t) + v_t (1 - alpha_t)^T, o = C softmax(A q) (Zhang et al. 2024, arXiv 2409.07146).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory gsa() {
  return {
      .name = "gsa",
      .summary =
          "softmax attention over slots with data-dependent decays, which hold averages of keys and values",
      .does =
          "decays each slot by a data-dependent rate of its own and adds with weight 1 - decay (gated slot "
          "attention)",
      .family = Family::adds,
      .equation =
          "A_t = Diag(alpha_t) A_{t-1} + (1 - alpha_t) k_t^T, C_t = C_{t-1} Diag(alpha_t) + v_t (1 - "
          "alpha_t)^T, o = C softmax(A q)",
      .laws = "alpha_t = sigmoid(W token + b)^(1/8), one a slot",
      .source = "Zhang et al. 2024, arXiv 2409.07146",
      .notes = "Products of slots and queries are not scaled.",
      .flops = [](const Options& o, double K, double V, double T,
                  double) { return 20 * static_cast<double>(o.get_int("memory.slots")) * (K + V) * T; },
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {{.name = "slots",
                   .default_value = std::int64_t{64},
                   .help = "slots of a head: rows of A and columns of C",
                   .min = 1,
                   .max = 4096,
                   .tried = {2, 5}}},
      .inputs = {{.name = "log_decay",
                  .per = Per::other,
                  .shape = "[B,T,H,S]",
                  .symbol = "log alpha",
                  .open = Open{-0.1},
                  .range = {-1.5, -0.01, -20}},
                 {.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,S,K]"},
                 {.name = "c0", .per = Per::other, .optional = true, .shape = "[B,H,V,S]"}},
      .states = {"A", "C"},
      .forms_state = true,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return o.get_int("memory.slots") * (K + V); },
      .letters = {{'S', "slots"}},
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const int slots = m.integer("slots");
            const auto g = m.input("log_decay", [&] { return 0.125 * log_sigmoid(m.token("decay", slots)); });
            const auto filled = expm1(g, -1);
            const auto weights =
                softmax(read(m, q, {.key = k, .value = filled, .value_log_decay = g, .state = "A"}));
            return read(m, weights, {.key = filled, .log_decay = g, .state = "C"});
          },
      .published =
          {
              .source = "Zhang et al. 2024, arXiv 2409.07146; fla-org/flash-linear-attention@bc3b101d "
                        "fla/layers/gsa.py",
              .set = {{"model.silu", "qkv"},
                      {"model.biases", "-decay"},
                      {"memory.slots", std::int64_t{32}},
                      {"model.out_act", "silu"},
                      {"model.out_norm", "rms_all"}},
              .parameters = 20544,
              .lacks = "as many slots as a head's keys have channels (here 32; memory.slots sets it)",
          }};
}

}  // namespace crosstalk::memories
