// The gated Oja rule: a delta rule with the roles of keys and values exchanged, in which a value writes what its key has
// beyond what the state holds of it: S' = Diag(alpha_t) S_{t-1}, S_t = S' + beta_t v_t (k_t - S'^T v_t)^T, alpha_t in R^V
// (flash-linear-attention, tests/ops/test_oja.py; Oja 1982).
//
// With the transposed state M = S^T it is a delta rule with keys v and values k. What M holds of v_t before its token, h_t,
// makes the keys u_t = beta_t (k_t - h_t) of a sum rule in S.
// Built in C++ beside its text: what is erased stands left of the state, which takes two calls of the engine.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gated_oja) {
  return {
      .summary = "delta rule with keys and values exchanged, in a state whose value channels decay",
      .does =
          "decays every value channel, then adds the part of the key that the state does not hold for the value",
      .family = Family::erases,
      .law = R"(
    u = value_norm == "l2" ? unit(v) : v
    S = diag(exp(log_decay)) S
    S += beta u (k - S^T u)^T
    read S q)",
      .laws =
          "log_decay = -e^A softplus(W2 W1 token + b), one a value channel, beta = beta_max sigmoid(w.token + b')",
      .source = "fla-org/flash-linear-attention@bc3b101d fla/ops/gated_oja_rule; Oja 1982",
      .notes = "Values have length 1 (value_norm l2), as keys have in delta rules.",
      .flops = flops::formed_state<24>,
      .parts = {feature_map("identity"), key_norm("none"), beta_max()},
      .options = {choice("value_norm", "l2", "normalisation of values: by their length, or none",
                         {"l2", "none"})},
      .inputs = {{.name = "log_decay", .per = Per::value, .range = {-1.5, -0.01, -20}},
                 {.name = "beta", .range = {0.05, 0.95}}},
      .forms_state = true,
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto v = m.text("value_norm") == "l2" ? unit(m.values()) : m.values();
        const auto beta = beta_gate(m);
        const auto g = expand(m.input("log_decay", [&] { return mamba_law(m, m.V); }), {m.B, m.T, m.H, m.V});
        PartOfState transposed{m.start("S"), decltype(q){}};
        if (auto& start = transposed.start)
          start = view(swap(view(start, {m.B * m.H, m.V, m.K, 1})), {m.B, m.H, m.K, m.V});
        const auto held = read(m, exp(g) * v,
                               {.key = v,
                                .value = k,
                                .gain = beta,
                                .log_decay = g,
                                .erase = Erase::delta,
                                .before = true,
                                .part = &transposed,
                                .between_tokens = true});
        return read(m, q, {.key = beta * (k - held), .value = v, .value_log_decay = g});
      }};
}
