// M2RNN: a matrix that goes through a matrix and tanh, and forgets as the token says (Mishra et al. 2026, arXiv 2603.14360).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(m2rnn) {
  return {
      .summary = "a nonlinear RNN whose state is a matrix",
      .does = "mixes the values' channels of the state, adds, takes tanh, and forgets as the token says",
      .family = Family::own_law,
      .law = R"(
    A_log = parameter(log_uniform(rate_from, 16))
    decay = token(bias = inverse_softplus(1e-3, 0.1))
    log_decay = -(exp(A_log) softplus(decay))
    turn = parameter(V, V, constant(0))
    f = exp(log_decay)
    S = f S + (1 - f) tanh(S + turn S + v k^T)
    read S q)",
      .source = "Mishra et al. 2026, arXiv 2603.14360",
      .notes = "I + turn is the matrix; turn starts at 0.",
      .parts = {feature_map("identity"), key_norm("none"), rate_from()},
      .inputs =
          {{.name = "log_decay", .open = Open{-30}},
           {.name = "turn", .per = Per::other, .shape = "[H,V,V]", .open = Open{0}, .range = {-0.5, 0.5}}},
      .forms_state = true,
      .published = {
          .source =
              "; open-lm-engine/lm-engine@87bcf9bb lm_engine/hf_models/modeling_utils/sequence_mixer_blocks/m2rnn.py",
          .settings = "short_conv=qkv, silu=qkv, biases=-out_gate, memory.rate_from=0.0, "
                      "out_skip=channel, out_gate=silu, out_norm=rms_all, out_norm_order=after",
          .undecayed = {"A_log", "decay.bias", "out_skip"},
          .lacks = {{"heads of keys of one size and of values of another, as many of each as a study says",
                     "heads have one size here"},
                    {"the clipping of gradients of states", "train.clip_norm clips those of all weights"}}}};
}
