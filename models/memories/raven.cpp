// Raven: gated slot attention whose slots are written by a router, the largest of whose scores say which slots a token goes into
// and how far these fade: log alpha_t = g_t r_t, r_t the top scores divided by their sum, 0 elsewhere (flash-linear-attention,
// fla/layers/raven.py).
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/nodes.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory raven() {
  return {
      .name = "raven",
      .summary = "softmax attention over slots, of which a router picks those that a token is written into",
      .does =
          "writes into the slots that a router picks, each decaying as much as it is written; retrieves by "
          "softmax",
      .family = Family::adds,
      .equation =
          "A_t = Diag(alpha_t) A_{t-1} + (1 - alpha_t) k_t^T, C_t = C_{t-1} Diag(alpha_t) + v_t (1 - "
          "alpha_t)^T, o = C softmax(A q), log alpha_t = g_t r_t, r_t = the largest of sigmoid(router_t) "
          "over their "
          "sum",
      .laws = "g_t = -e^A softplus(w.token + b), router = W token + b",
      .source = "fla-org/flash-linear-attention@bc3b101d fla/layers/raven.py",
      .notes =
          "Products of slots and queries are not scaled. Without the Gumbel noise that its layer adds to the "
          "router "
          "in training.",
      .flops = [](const Options& o, double K, double V, double T,
                  double) { return 20 * static_cast<double>(o.get_int("memory.slots")) * (K + V) * T; },
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {{.name = "slots",
                   .default_value = std::int64_t{64},
                   .help = "slots of a head: rows of A and columns of C",
                   .min = 1,
                   .max = 4096,
                   .tried = {3, 5}},
                  {.name = "selected",
                   .default_value = std::int64_t{32},
                   .help = "slots that a token is written into (all where there are fewer)",
                   .min = 1,
                   .max = 4096,
                   .tried = {1, 5}}},
      .inputs = {{.name = "log_decay", .symbol = "g", .open = Open{-0.1}, .range = {-1.5, -0.01, -20}},
                 {.name = "router", .per = Per::other, .shape = "[B,T,H,S]"},
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
            const auto decay = m.input("log_decay", [&] {
              const auto rate = exp(m.parameter("A_log", {m.H}, Init::log_uniform(1e-4, 16)));
              return -rate * softplus(m.token("decay", 1, Init::inverse_softplus(1e-3, 0.1)));
            });
            const auto router = m.input("router", [&] { return m.token("router", slots); });
            const auto scores = sigmoid(expand(router, {m.B, m.T, m.H, slots}));
            m.watch_decay(decay, true);
            const auto top = largest(scores, m.integer("selected"), 0);
            const decltype(top) shares{&m.graph, normalize(m.graph, RowNorm::sum, 1e-9, top.variable)};
            const auto g = decay * shares;
            const auto filled = expm1(g, -1);
            const auto weights = softmax(read(
                m, q, {.key = k, .value = filled, .value_log_decay = g, .state = "A", .watched = false}));
            return read(m, weights, {.key = filled, .log_decay = g, .state = "C", .watched = false});
          },
      .published =
          {
              .source = "fla-org/flash-linear-attention@bc3b101d fla/layers/raven.py",
              .set = {{"model.silu", "qkv"},
                      {"model.qk_norm", "shared"},
                      {"model.biases", "-router"},
                      {"memory.slots", std::int64_t{32}},
                      {"model.out_act", "silu"},
                      {"model.out_norm", "rms_all"}},
              .parameters = 20740,
              .lacks = "Gumbel noise on the router in training, and as many slots as a head's keys have "
                       "channels (here 32; "
                       "memory.slots sets it)",
          }};
}

}  // namespace crosstalk::memories
