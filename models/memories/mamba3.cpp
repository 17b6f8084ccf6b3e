// Mamba-3 (single input, single output): a scalar decay, a write that averages this token's and the last one's (the
// trapezoidal rule), and keys and queries turned by angles that add up from token to token (models/parts/mamba3.h).
// In C++: channels turn in pairs and states are called k, v and angle, for which the language of laws has no words.
// SPDX-License-Identifier: Apache-2.0
#include "models/parts/mamba3.h"

CROSSTALK_MEMORY(mamba3) {
  return mamba3_memory(
      {.summary =
           "sum rule with a scalar decay, trapezoidal writes, and keys turned by angles that tokens say",
       .does =
           "decay and trapezoidal writes by a data-dependent step, keys and queries rotated by what tokens say",
       .equation =
           "h_t = alpha_t h_{t-1} + (1 - lambda_t) step_t alpha_t v_{t-1} k'_{t-1}^T + lambda_t step_t v_t k'_t^T, o = h q', k' = R_t (k + k_bias), "
           "q' = R_t (q + q_bias), R_t turns channels 2c and 2c + 1 by the sum of angle_c up to token t",
       .laws =
           "step_t = softplus(w.token + b), alpha_t = exp(-step_t f(w'.token + b')), f(x) = 1 + x for x > 0, 1 / (1 - x) below (rate rational), or "
           "softplus, lambda_t = sigmoid(w''.token + b''), angle_t = step_t pi tanh(W token + b), biases of k and q start at 1",
       .source = "Mamba-3 2026, arXiv 2603.15569",
       .notes = "Channels behind 2 angles are not turned.",
       .bounded_by_rank = true,
       .flops = flops::weights<16>,
       .build =
           [](auto& m) { return mamba3_read(m, nullptr, [](auto q, const auto& one) { return one(q); }); },
       .published = {.source = "; state-spaces/mamba@e9594ce mamba_ssm/modules/mamba3.py",
                     .settings = "out_skip=head",
                     .undecayed = {"out_skip"}}},
      {.name = "k_bias", .per = Per::head_key, .open = Open{0}}, "[B,H,K]", "[B,H,V]");
}
