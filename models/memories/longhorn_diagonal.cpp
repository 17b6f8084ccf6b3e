// Longhorn as its authors run it: the implicit delta rule with the diagonal of k k^T in place of k k^T, entry by entry (Liu et
// al. 2024, arXiv 2407.14207; Cranial-XIX/longhorn@4ea1745 models/longhorn.py).
// SPDX-License-Identifier: Apache-2.0
#include "models/laws.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {

Memory longhorn_diagonal() {
  return {.name = "longhorn_diagonal",
          .summary = "the implicit delta rule entry by entry, as Longhorn was released",
          .does = "every entry of the state decays by the square of its key's channel, then adds",
          .family = Family::own_law,
          .law = R"(
    D = beta / (1 + beta k^T k)
    S = (1 - D (k^2)^T) * S + (D * v) k^T
    read S q)",
          .laws = "beta = sigmoid(W2 W1 token + b) for every value channel",
          .source = "Liu et al. 2024, arXiv 2407.14207",
          .notes =
              "With keys of one channel each it is longhorn, the exact solution. The rank of W2 W1 is a "
              "sixteenth of the "
              "token's size, rounded up.",
          .flops = flops::formed_state<14>,
          .parts = {feature_map("identity"), key_norm("none")},
          .inputs = {{.name = "beta", .per = Per::value, .range = {0.05, 0.95}}},
          .forms_state = true,
          .build =
              [](auto& m) {
                const auto [q, k] = features(m);
                const auto beta = m.input(
                    "beta", [&] { return sigmoid(m.token("beta", m.V, {}, (m.token_size() + 15) / 16)); });
                const auto squares = fold(k * k, {m.B, m.T, m.H, 1});
                const auto gain = beta * map(MapKind::reciprocal, 1.0 + beta * squares);  // [B,T,H,V]
                // On a GPU, without a state a token.
                if (m.graph.device() == Device::cuda)
                  return diagonal_read(m, q, k, {.step = gain, .of_keys = true});
                // Rows of the state as heads: x [B,n,H,K] -> [B,n,H V,K].
                const auto rows = [&](auto x, int n) {
                  return view(expand(view(x, {m.B * n, m.H, 1, m.K}), {m.B * n, m.H, m.V, m.K}),
                              {m.B, n, m.H * m.V, m.K});
                };
                const auto channels = [&](auto x) { return view(x, {m.B, m.T, m.H * m.V, 1}); };
                const auto keys = rows(k, m.T), rate = channels(gain);
                const auto decay = log(1.0 - rate * (keys * keys));  // D k^2 < 1
                m.watch_decay(decay, true);
                auto from = m.start("S");
                if (from) from = view(from, {m.B, 1, m.H * m.V, m.K});
                const auto state = scan(decay, channels(gain * m.values()) * keys, from);
                if (m.wants_end()) m.end("S", view(last_token(state), {m.B, m.H, m.V, m.K}));
                const auto read = fold(m.at_queries(state) * rows(q, m.Q), {m.B, m.Q, m.H * m.V, 1});
                return view(read, {m.B, m.Q, m.H, m.V});
              },
          .published = {
              .source = "Liu et al. 2024, arXiv 2407.14207; Cranial-XIX/longhorn@4ea1745 models/longhorn.py",
              .set = {{"model.inner", true},
                      {"model.short_conv", "v"},
                      {"model.short_conv_bias", true},
                      {"model.silu", "v"},
                      {"model.key_groups", std::int64_t{1}},
                      {"model.biases", "-out_gate"},
                      {"model.out_skip", "channel"},
                      {"model.out_gate", "silu"}},
              .expand_k = 0.5,
              .expand_v = 2,
              .lacks = "a state of 16 at every width (model.d_key sets it)",
          }};
}

}  // namespace crosstalk::memories
