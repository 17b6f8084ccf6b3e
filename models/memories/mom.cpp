// Mixture of memories in its form of one projection (single_kv_proj), not the one that was released, whose memories have projections of
// their own and share one more memory: several states of Gated DeltaNet, of which a router picks those that a token decays, writes into and reads
// (Du et al. 2025, arXiv 2502.13685).
//
//   S_e,t = S_e,t-1 where e is not picked, else S' + beta_t (v_t - S' k_t) k_t^T with S' = alpha_t S_e,t-1
//   o     = sum over e of w_e S_e q, w the softmax of the router over those that are picked
//
// Memories are heads of the engine's recurrence, whose gates are open where a token is not routed.
// In C++: a head has as many matrices as an option says, and the language of laws has no such state.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(mom) {
  return {
      .summary = "several states of Gated DeltaNet, a few of which a router picks for each token",
      .does =
          "decays, erases and writes only the states that a router picks, and reads these (mixture of memories)",
      .family = Family::erases,
      .equation =
          "S_e,t = S' + beta_t (v_t - S' k_t) k_t^T, S' = alpha_t S_e,t-1 for the memories e with the largest router_t, S_e,t = S_e,t-1 for the "
          "others, o = sum_e w_e S_e q, w the softmax of router_t over the largest",
      .laws = "alpha_t, beta_t as in gated_delta, router = W token + b",
      .source = "Du et al. 2025, arXiv 2502.13685",
      .notes =
          "Keys, values and gates are the same for all memories (single_kv_proj of the released layer). Beside the sequence a query has a router of "
          "its own.",
      .flops = [](const Options& o, double K, double V, double T,
                  double) { return 24 * static_cast<double>(o.get_int("memory.memories")) * K * V * T; },
      .parts = {feature_map("identity"), key_norm("l2"), beta_max(), rate_from()},
      .options = {number("memories", 8, "states of a head", 1, 64, {3, 4}),
                  number("selected", 2, "memories that a token goes into", 1, 64, {1, 2})},
      .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "beta", .range = {0.05, 0.95}},
                 {.name = "router", .per = Per::other, .shape = "[B,T,H,E]"},
                 {.name = "m0", .per = Per::other, .optional = true, .shape = "[B,H,E,V,K]"}},
      .states = {"M"},
      .forms_state = true,
      .own_token = true,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return o.get_int("memory.memories") * K * V; },
      .letters = {{'E', "memories"}},
      .check =
          [](Options& o) {
            const std::int64_t selected = o.get_int("memory.selected"),
                               memories = o.get_int("memory.memories");
            if (selected > memories)
              throw OptionError(
                  "memory.selected",
                  fmt::format(
                      "memory.selected = {} picks more than the memory.memories = {} that there are; give at most {}",
                      selected, memories, memories));
          },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const int E = m.integer("memories"), picked = m.integer("selected");
            const auto beta = expand(beta_gate(m), {m.B, m.T, m.H, 1});
            const auto g = expand(mamba_decay(m), {m.B, m.T, m.H, 1});
            const auto router =
                expand(m.input("router", [&] { return m.token("router", E); }), {m.B, m.T, m.H, E});
            m.watch_decay(g, true);
            const auto routed = is_largest(router, picked);  // [B,T,H,E]
            const auto of_each = [&](auto x) { return view(x * routed, {m.B, m.T, m.H * E, 1}); };
            const auto o = read(m, repeated_heads(q, E),
                                {.key = repeated_heads(k, E),
                                 .value = repeated_heads(m.values(), E),
                                 .gain = of_each(beta),
                                 .log_decay = of_each(g),
                                 .erase = Erase::delta,
                                 .state = "M",
                                 .watched = false});  // [B,Q,H E,V]
            const auto asked =
                m.at_tokens() || !m.learned() ? m.at_queries(router) : m.asking("read_router", E);
            const auto shares = view(softmax(largest(asked, picked, -1e30)), {m.B, m.Q, m.H * E, 1});
            return view(fold(view(shares * o, {m.B * m.Q, m.H, E, m.V}), {m.B * m.Q, m.H, 1, m.V}),
                        {m.B, m.Q, m.H, m.V});
          },
      .published =
          {.source = fla_layers("mom.py"),
           .settings =
               convolved_layer("normal", "biases=-beta -router -out_gate, memory.rate_from=0.0", "silu"),
           .expand_v = 2,
           .eps_times = HeadChannels::keys,
           .undecayed = {"A_log", "decay.bias"},
           .lacks = {
               {"own projections of keys, values and gates for every memory, and convolutions over the tokens of one memory alone",
                "3.5 times fewer weights: what routed gates give is seen here, not what experts give"},
               {"a shared memory that every token goes into", "nothing holds what no picked memory held"},
               {"a loss that balances the router", "some memories may never be picked"},
               {"one router for all heads (here each has its own)", "heads go into different memories"}}}};
}
