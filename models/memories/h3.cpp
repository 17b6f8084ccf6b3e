// H3: a multiplicative state space, linear attention whose past fades and turns as a fixed kernel of the distance says: o_t =
// sum_s h_{t-s} (q_t.k_s) v_s + D (q_t.k_t) v_t, h a sum of fading waves (S4D) (Fu et al. 2022, arXiv 2212.14052).
//
// Every product k_i v_j is a channel that is convolved with the head's kernel, as its authors train it; on a GPU, pairs of tokens
// are weighed by it, which is the same and costs less.
// In C++: it is a convolution with a filter as long as the sequence, and a law is a step of one token.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "models/memories/memory_file.h"
#include "models/parts/implicit_filter.h"

CROSSTALK_MEMORY(h3) {
  return {
      .summary = "products of key and value through a state space that no token changes, times the query",
      .does =
          "adds an outer product to several states that decay and rotate at fixed rates, whatever the token (H3)",
      .family = Family::adds,
      .equation =
          "o_t = sum_{s <= t} h_{t-s} (q_t.k_s) v_s + skip (q_t.k_t) v_t, h_l = 2 sum_n e^{-rate_n l} (read_n cos(angle_n l) - read_imag_n "
          "sin(angle_n l))",
      .laws =
          "rate = e^log_step / 2, angle = e^log_step e^log_angle, all of a head and a wave, read N(0, 1/2)",
      .source = "Fu et al. 2022, arXiv 2212.14052",
      .notes =
          "Steps start as log U(1e-3, 0.1), angles as those of S4D-Lin: pi n. Its first state space, a shift of keys, is model.short_conv.",
      .bounded_by_rank = true,
      .flops = [](const Options&, double K, double V, double T, double) { return 6 * K * V * T * T; },
      .options = {number("waves", 16, "states of a product of key and value (complex numbers)", 1, 4096,
                         {1, 3})},
      .inputs = {{.name = "rate", .per = Per::other, .shape = "[H,W]", .open = Open{0}, .range = {0.01, 1}},
                 {.name = "angle", .per = Per::other, .shape = "[H,W]", .open = Open{0}},
                 {.name = "read", .per = Per::other, .shape = "[H,W]", .open = Open{0.5}},
                 {.name = "read_imag", .per = Per::other, .shape = "[H,W]", .open = Open{0}},
                 {.name = "skip", .per = Per::head, .open = Open{0}}},
      .states = {},
      .forms_state = true,
      .state = [](const Options& o, std::int64_t K, std::int64_t V,
                  std::int64_t) { return 2 * o.get_int("memory.waves") * K * V; },
      .letters = {{'W', "waves"}},
      .build =
          [](auto& m) {
            auto [q, k] = features(m);
            if (!m.learned()) q = m.scale() * q;
            const int waves = m.integer("waves"), H = m.H;
            const auto given = [&](const char* name, const auto& law) { return m.input(name, law); };
            const auto own = [&](const char* name, const Init& init) {
              return given(name, [&] { return m.parameter(name, {m.H, waves}, init); });
            };
            decltype(m.values()) step = {};
            if (m.learned())
              step = exp(m.parameter("log_step", {m.H}, {Init::Law::uniform, std::log(1e-3), std::log(0.1)}));
            std::vector<double> turns;
            for (int i = 0; i < H * waves; ++i)
              turns.push_back(std::log(std::acos(-1.0) * (i % waves + 0.5)));
            const auto rate = given("rate", [&] { return expand(0.5 * step, {1, 1, m.H, waves}); });
            const auto angle = given("angle", [&] {
              return step * exp(m.parameter("log_angle", {m.H, waves}, Init::listed(turns)));
            });
            const auto read = own("read", Init::normal(std::sqrt(0.5))),
                       read_imag = own("read_imag", Init::normal(std::sqrt(0.5)));
            const auto skip = given("skip", [&] { return m.parameter("skip", {m.H}, Init::normal(1)); });
            const auto l = distances(m);
            const auto wave = read * map(MapKind::sine, 0.5 * std::acos(-1.0) + angle * l) -
                              read_imag * map(MapKind::sine, angle * l);
            const auto h = fold(2.0 * (exp(-(rate * l)) * wave), {1, m.T, m.H, 1});
            // A pair of tokens costs a query K + V, the products of a token K V.
            if (m.graph.device() == Device::cuda && m.T <= m.K * m.V) {
              const auto itself = one_hot_tokens(m);
              auto behind = convolved(m, expand(itself, {1, m.T, m.H, m.T}), h);  // h_{t-s}, [1,T,H,T]
              if (!m.strict()) behind = behind + skip * itself;
              if (!m.at_tokens()) behind = m.at_queries(expand(behind, {m.B, m.T, m.H, m.T}));
              const auto pairs = attend(m, q, k, {.kernel = Kernel::identity, .normalised = false});
              return m.mix(pairs * swap(behind));
            }
            const int rows = m.B * m.T * m.H, asked = m.B * m.Q * m.H;
            const auto kv = view(view(k, {rows, m.K, 1, 1}) * view(m.values(), {rows, 1, m.V, 1}),
                                 {m.B, m.T, m.H, m.K * m.V});
            auto held = convolved(m, kv, h);  // of tokens before alone: without what the own one adds
            held = m.strict() ? held - fold(2.0 * read, {1, 1, m.H, 1}) * kv : held + skip * kv;
            held = m.at_queries(held);
            const auto o = view(q, {asked, m.K, 1, 1}) * view(held, {asked, m.K, m.V, 1});
            return view(fold(o, {asked, 1, m.V, 1}), {m.B, m.Q, m.H, m.V});
          },
      .published =
          {.source = "; HazyResearch/zoology@d88d6f5 zoology/mixers/h3/h3.py",
           .settings = "bias=true, short_conv=k",
           .lacks = {
               {"heads of two channels, a shift of keys as long as the state, and HiPPO's start of its kernel",
                "another memory of the past at the start: rows of H3 in Zoology's figures are not those of this layer"},
               {"the bilinear discretisation of its kernel's steps, and the start of its output map",
                "the loss of a small model on equal weights differs by 2e-2"}}}};
}
