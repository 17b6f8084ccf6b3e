// Gated KalmaNet: a ridge regression of values on keys that fades, solved for every query by Chebyshev's steps, and mixed with
// the query itself (arXiv 2511.21016). The spectrum of H + ratio f I lies in ratio f .. (1 + ratio) f, f = |H|.
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(gka) {
  return {
      .summary = "a fading ridge regression of values on keys, solved by Chebyshev's steps",
      .does = "adds to two sums that fade; a query solves a ridge regression and is mixed with itself",
      .family = Family::own_law,
      .law = R"(
    beta = 1e-6 + sigmoid(token)
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    alpha = sigmoid(asking)
    state H[K, K]
    S = exp(log_decay) S + beta^2 v k^T
    H = exp(log_decay) H + beta^2 k k^T
    f = norm(H)
    s = 2 inverse((1 + 2 ratio) f)
    w0 = 2
    x0 = s q
    d0 = x0
    repeat iterations: w{n} = 1 / (1 - w{n-1} / (2 + 4 ratio)^2); d{n} = (w{n} - 1) d{n-1} - s w{n} (H x{n-1} + ratio f x{n-1} - q); x{n} = x{n-1} + d{n}
    x = solver == "exact" ? solve(H + diag((ratio f + 1 - positive(f)) ones(K)), q) : x{iterations}
    read S (q + alpha (x - q)))",
      .source = "Gated KalmaNet 2025, arXiv 2511.21016",
      .notes =
          "x goes to (H + ratio f I)^-1 q, which solver \"exact\" takes. Gradients are those of the steps.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("l2"), rate_from()},
      .options = {choice("solver", "chebyshev", "by Chebyshev's steps, as its authors do, or exactly",
                         {"chebyshev", "exact"}),
                  number("iterations", 30, "Chebyshev's steps a query", 1, 140, {30, 2}),
                  number("ratio", 0.02, "the ridge, as a multiple of the norm of H", 1e-6, 100, {0.02, 0.5})},
      .inputs =
          {{"log_decay"},
           {.name = "beta", .range = {0.5, 0.95}},
           {"alpha"},
           {.name = "h0", .per = Per::other, .optional = true, .shape = "[B,H,K,K]", .range = {-0.02, 0.02}}},
      .forms_state = true,
      .published = {
          .source = "; fla-org/flash-linear-attention@b22c42ca fla/layers/gka.py",
          .settings = "short_conv=qkv, silu=qkv, biases=-out_gate, memory.rate_from=0.0, "
                      "out_norm=rms, out_norm_eps=1e-6, out_norm_gain=shared, out_gate=silu",
          .eps_times = HeadChannels::keys,
          .parameters = 21672,
          .undecayed = {"A_log", "decay.bias"},
          .lacks = {
              {"a gradient that takes the steps' result for the solution",
               "gradients go through the steps: they differ where the steps have not come to an end"}}}};
}
