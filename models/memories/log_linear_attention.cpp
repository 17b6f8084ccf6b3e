// Log-linear attention: gated linear attention with a state for every level of a Fenwick tree, S_t^l, and a gain for each:
// o_t = sum_l lambda_t^l S_t^l q_t (Guo et al. 2025, arXiv 2506.04761, with Mamba-2's decay).
// In C++: a token has as many states as its number has digits, and a law's are always the same.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/random.h"
#include "models/memories/memory_file.h"
#include "models/parts/levels.h"

CROSSTALK_MEMORY(log_linear_attention) {
  return {
      .summary = "gated sum rule with log T states: the far past in ever larger blocks",
      .does =
          "decays by a data-dependent scalar, then adds, in log T states: older tokens in ever larger blocks",
      .family = Family::adds,
      .equation =
          "S_t = alpha_t S_{t-1} + step_t v_t phi(k_t)^T, kept in parts S^l: token t alone (l = 0) and the blocks of 2^(l-1) tokens before it that "
          "the binary digits of t say; o = sum_l lambda_t^l S^l phi(q)",
      .laws =
          "lambda_t = softplus(L * (W token + b)), step_t = softplus(w.token + b'), alpha_t = exp(-e^A step_t)",
      .source = "Guo et al. 2025, arXiv 2506.04761",
      .notes =
          "write \"step\" is Mamba-2 by levels, with e^A = 1, 2, .. over the heads; \"one\" writes without a step, e^A from U(1, 16).",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .options = {choice("write", "step",
                         "whether the step that decides the decay scales the value too, as in Mamba-2",
                         {"step", "one"})},
      .inputs = {{.name = "log_decay", .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "step", .optional = true, .range = {0.05, 0.95}},
                 {.name = "level_gate",
                  .per = Per::other,
                  .shape = "[B,T,H,L]",
                  .symbol = "lambda",
                  .range = {0.05, 0.95}}},
      .states = {},
      .state = level_states,
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const bool steps = m.learned() ? m.text("write") == "step" : m.has_input("step");
            if (!steps) return read_by_levels(m, q, {.key = k, .log_decay = mamba_decay(m)}, level_gates(m));
            const auto step = m.input(
                "step", [&] { return softplus(m.token("step", 1, Init::inverse_softplus(1e-3, 0.1))); });
            const auto g = m.input("log_decay", [&] {
              std::vector<double> rates;  // log 1, log 2, ..
              for (int h = 1; h <= m.H; ++h) rates.push_back(portable_log(h));
              return -exp(m.parameter("A_log", {m.H}, Init::listed(rates))) * step;
            });
            return read_by_levels(m, q, {.key = k, .gain = step, .log_decay = g}, level_gates(m));
          },
      .published = {
          .source = fla_layers("log_linear_mamba2.py"),
          .settings = "short_conv=qkv, silu=qkv, short_conv_start=normal, short_conv_bias=true, "
                      "key_groups=1, biases=-levels -out_gate, out_skip=head, out_norm=rms_all, "
                      "out_norm_order=after, out_gate=silu",
          .expand_k = 0.5,
          .expand_v = 2,
          .undecayed = {"A_log", "step.bias", "level_scale", "out_skip"},
          .lacks = {
              {"a state of 128 numbers a value channel (here a quarter of the width; model.d_key = 128 model.heads sets it)",
               "a state 8 times smaller at width 64: it holds less where the state decides"},
              {"15 levels (here 16), and the start of its output map, smaller the more layers there are",
               "the last level is of tokens more than 16,384 back alone; the first steps of training differ"}}}};
}
