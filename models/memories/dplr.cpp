// A state with a diagonal plus a rank-one transition: S_t = S_{t-1} (Diag(alpha_t) + a_t b_t^T) + v_t k_t^T,
// o_t = S_t q_t: what every memory of this family is a case of. Its gates are those of RWKV-7 without ties
// (Peng et al. 2025, arXiv 2503.14456).
// SPDX-License-Identifier: Apache-2.0
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory dplr() {
  return {
      .name = "dplr",
      .summary = "diagonal plus low rank: any rank-one update of a decaying state",
      .does = "a diagonal decay plus any matrix of rank one",
      .family = Family::erases,
      .equation = "S_t = S_{t-1} Diag(alpha_t) + (S_{t-1} a_t) b_t^T + v_t k_t^T, o = S q",
      .laws = "b = unit(W token), a = -sigmoid(W' token) * b",
      .source = "as in Peng et al. 2025, arXiv 2503.14456",
      .bounded_by_rank = true,
      .flops = flops::weights<22>,
      .parts = {feature_map("identity"), key_norm("none")},
      .inputs = {{.name = "log_decay", .per = Per::key, .symbol = "log alpha", .range = {-1.5, -0.01, -20}},
                 {.name = "a", .per = Per::key, .open = Open{0, -1}, .range = {-0.9, 0.9}},
                 {.name = "b", .per = Per::key, .open = Open{0, 1}, .range = {-0.9, 0.9}}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto g =
            m.input("log_decay", [&] { return -0.6065306597126334 * sigmoid(m.token("decay", m.K)); });
        const auto b = m.input("b", [&] { return unit(m.token("erase", m.K)); });
        const auto a = m.input("a", [&] { return -(sigmoid(m.token("rate", m.K)) * b); });
        return read(m, q,
                    {.key = k,
                     .log_decay = g,
                     .erase = Erase::free,
                     .erase_read = -a,
                     .erase_write = b,
                     .decayed = false});
      }};
}

}  // namespace crosstalk::memories
