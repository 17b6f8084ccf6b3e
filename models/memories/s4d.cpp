// S4D: a diagonal state space of complex numbers that no token changes, S_t = exp(step A) * S_{t-1} + (step *
// v_t) k_t^T, A = -e^{log_rate} + i angle, o = 2 Re(C * S) q (Gu, Gupta, Goel, Re 2022, arXiv 2206.11893).
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory s4d() {
  return {
      .name = "s4d",
      .summary = "diagonal state space: every entry of a complex state rotates and decays at its own rate",
      .does = "every entry of a complex state rotates and decays at its own rate, whatever the token",
      .family = Family::own_law,
      .equation =
          "S_t = exp(step (-e^log_rate + i angle)) * S_{t-1} + (step * v_t) phi(k_t)^T, o = 2 "
          "Re((read + i read_imag) * S) phi(q)",
      .laws = "step for every value channel, the others for every entry",
      .source = "Gu, Gupta, Goel, Re 2022, arXiv 2206.11893",
      .notes =
          "S4D itself has constant k and q (its B and C): nothing it reads depends on a key. Steps "
          "start as log U(1e-3, 0.1), rates as 1/2, angles as U(0, pi K), where S4D-Lin takes pi n.",
      .bounded_by_rank = true,
      .flops = flops::formed_state<28>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "step", .per = Per::other, .shape = "[H,V]", .range = {0.05, 0.95}},
                 {.name = "log_rate", .per = Per::other, .shape = "[H,V,K]", .open = Open{-30}},
                 {.name = "angle", .per = Per::other, .shape = "[H,V,K]", .open = Open{0}},
                 {.name = "read", .per = Per::other, .shape = "[H,V,K]", .open = Open{0.5}},
                 {.name = "read_imag", .per = Per::other, .shape = "[H,V,K]", .open = Open{0}},
                 {.name = "s_imag0", .per = Per::other, .optional = true, .shape = "[B,H,V,K]"}},
      .states = {"S", "S_imag"},
      .forms_state = true,
      .state = [](const Options&, std::int64_t K, std::int64_t V, std::int64_t) { return 2 * V * K; },
      .build =
          [](auto& m) {
            const auto [q, k] = features(m);
            const auto entries = [&](const char* name, Init init) {
              return m.input(name, [&] { return m.parameter(name, {m.H, m.V * m.K}, init); });
            };
            const auto step = m.input("step", [&] {
              return exp(
                  m.parameter("log_step", {m.H, m.V}, {Init::Law::uniform, std::log(1e-3), std::log(0.1)}));
            });
            return diagonal_read(m, q, k,
                                 {.step = step,
                                  .log_rate = entries("log_rate", Init::constant(std::log(0.5))),
                                  .angle = entries("angle", {Init::Law::uniform, 0, std::acos(-1.0) * m.K}),
                                  .read = entries("read", Init::normal(std::sqrt(0.5))),
                                  .read_imag = entries("read_imag", Init::normal(std::sqrt(0.5)))});
          }};
}

}  // namespace crosstalk::memories
