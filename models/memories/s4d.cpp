// S4D: a diagonal state space of complex numbers that no token changes, S_t = exp(step A) * S_{t-1} + (step *
// v_t) k_t^T, A = -e^{log_rate} + i angle, o = 2 Re(C * S) q (Gu, Gupta, Goel, Re 2022, arXiv 2206.11893).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

CROSSTALK_MEMORY(s4d) {
  return {
      .summary = "diagonal state space: every entry of a complex state rotates and decays at its own rate",
      .does = "every entry of a complex state rotates and decays at its own rate, whatever the token",
      .family = Family::own_law,
      .law = R"(
    log_step = parameter(V, uniform(log(1e-3), log(0.1)))
    step = exp(log_step)
    log_rate = parameter(V, K, constant(log(0.5)))
    angle = parameter(V, K, uniform(0, 3.141592653589793 keys))
    read = parameter(V, K, normal(sqrt(0.5)))
    read_imag = parameter(V, K, normal(sqrt(0.5)))
    state S_imag[V, K]
    A = exp(-(diag(step) exp(log_rate)))
    turn = diag(step) angle
    R = A * (cos(turn) * S - sin(turn) * S_imag) + (step * v) k^T
    S_imag = A * (sin(turn) * S + cos(turn) * S_imag)
    S = R
    read 2 (read * S - read_imag * S_imag) q)",
      .source = "Gu, Gupta, Goel, Re 2022, arXiv 2206.11893",
      .notes =
          "S4D itself has constant k and q (its B and C): nothing it reads depends on a key. Steps "
          "start as log U(1e-3, 0.1), rates as 1/2, angles as U(0, pi K), where S4D-Lin takes pi n.",
      .bounded_by_rank = true,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{"step"},
                 {.name = "log_rate", .open = Open{-30}},
                 {.name = "angle", .open = Open{0}},
                 {.name = "read", .open = Open{0.5}},
                 {.name = "read_imag", .open = Open{0}}},
      .forms_state = true};
}
