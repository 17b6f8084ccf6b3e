// Fast weights of 2016: A_t = lambda A_{t-1} + eta h_t h_t^T with constant lambda and eta, and an inner loop that settles
// under A before anything is read: h^{s+1} = relu(LayerNorm(q + A h^s)) (Ba et al. 2016, arXiv 1610.06258, eqs 1 and
// 2). Here tokens' keys are the h_t, the query stands for the boundary condition W h + C x, and S, written by the same
// rule, gives the values.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory fast_weights() {
  return {.name = "fast_weights",
          .summary = "fast weights of 2016: constant decay, and queries that settle in an inner loop",
          .does =
              "decays the whole state by a constant, then adds; queries settle in an inner loop first (fast "
              "weights of 2016)",
          .family = Family::adds,
          .equation =
              "A_t = decay A_{t-1} + rate k_t k_t^T, S_t = decay S_{t-1} + rate v_t k_t^T, h_0 = "
              "relu(LayerNorm(q)), h_{s+1} = relu(LayerNorm(q + A h_s)), o = S h_n after n = "
              "inner_steps; o = S q with none",
          .source = "Ba, Hinton, Mnih, Leibo, Ionescu 2016, arXiv 1610.06258",
          .notes = "The paper's A is auto-associative; S beside it reads values. LayerNorm has no gain.",
          .bounded_by_rank = true,
          .flops =
              [](const Options& o, double K, double, double T, double Q) {
                return 6 * static_cast<double>(o.get_int("memory.inner_steps") + 1) * K * T * Q;
              },
          .parts = {feature_map("identity"), key_norm("none")},
          .options = {{"decay", 0.95, "what a step leaves of the state (lambda)", 0, 1},
                      {"rate", 0.5, "what a write is multiplied by (eta)", 0},
                      {.name = "inner_steps",
                       .default_value = std::int64_t{1},
                       .help = "steps of the inner loop",
                       .min = 0,
                       .max = 100,
                       .tried = {0, 1, 2}}},
          .inputs = {{.name = "a0", .per = Per::other, .optional = true, .shape = "[B,H,K,K]"}},
          .states = {"S", "A"},
          .state = [](const Options& o, std::int64_t K, std::int64_t V,
                      std::int64_t) { return K * (V + (o.get_int("memory.inner_steps") > 0 ? K : 0)); },
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const double log_decay = std::log(std::max(m.number("decay"), 1e-30));
                const auto g = m.constant([=](int) { return log_decay; });
                const auto write = m.number("rate") * k;
                auto h = q;
                const auto settled = [&](auto x) {
                  x.variable = normalize(m.graph, RowNorm::layer, kLayerNormEps, x.variable);
                  return map(MapKind::relu, x);
                };
                const int steps = m.integer("inner_steps");
                if (steps > 0) h = settled(q);
                for (int s = 0; s < steps; ++s)
                  h = settled(q + read(m, h, {.key = write, .value = k, .log_decay = g, .state = "A"}));
                return read(m, h, {.key = write, .log_decay = g});
              }};
}

}  // namespace crosstalk::memories
