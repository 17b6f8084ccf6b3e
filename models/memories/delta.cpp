// The delta rule (Schlag, Irie, Schmidhuber 2021, equations 22-25; DeltaNet, Yang et al. 2024, with key_norm l2).
// Built in C++ beside its text: divided by sums of keys, its reads are sums over rows of products between tokens, without a state.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/error.h"
#include "models/memories/memory_file.h"

namespace crosstalk::memories {
namespace {

// The two denominators are products with the running sum of keys, z_{t-1}.k_t and z.q: sums of a row of products with keys.
template <class Real>
Var<Real> divided_read(Mixer<Real>& m, Var<Real> q, Var<Real> k, Var<Real> beta) {
  if (m.H > 1 || !m.position() || !m.batch())
    throw OptionError(
        "memory.read_norm",
        "memory.read_norm = \"attention\" of the delta rule has one head and reads beside the sequence; use read_norm \"none\" or model.heads = 1");
  const Attention products{.kernel = Kernel::identity, .normalised = false};
  Attention earlier = products;
  earlier.strict = true;
  const Var<Real> zk = fold(attend(m, k, k, earlier, {.between_tokens = true}), {m.B, 1, m.T, 1});
  const Var<Real> zq = fold(attend(m, q, k, products), {m.B, 1, m.Q, 1});
  // No earlier key overlaps where z_{t-1}.k_t is 0, at the first token among others: there is nothing to erase.
  const Var<Real> erase = beta * map(MapKind::inverse, swap(zk));
  const Recurrence<Real> rule{
      .key = k, .gain = beta, .erase = Erase::tied, .erase_read = k, .erase_gain = erase};
  return m.mix(read_weights(m, q, rule) * map(MapKind::reciprocal, kReadEps + zq));
}

}  // namespace
}  // namespace crosstalk::memories

CROSSTALK_MEMORY(delta) {
  return {
      .summary = "delta rule: reads what a key holds, writes the difference",
      .does = "retrieves what the key holds, writes the difference (DeltaNet)",
      .family = Family::erases,
      .law = R"(
    gate = token
    beta = beta_max sigmoid(gate)
    state z[K]
    S += beta (v - (read_norm == "attention" ? inverse(z^T k) S k : S k)) k^T
    z += k
    read read_norm == "attention" ? S q / (z^T q + eps) : S q)",
      .source = "Schlag, Irie, Schmidhuber 2021, arXiv 2102.11174; Yang et al. 2024, arXiv 2406.06484",
      .notes =
          "With a unit key and beta = 1 the old value is replaced exactly; beta = 2 and no value reflects, which exchanges two values. read_norm "
          "attention: the retrieved value is divided too (vbar_t = S_{t-1} k_t / (z_{t-1}.k_t), vbar_1 = 0, o = S q / (z.q)).",
      .parts = {feature_map("elu1"), key_norm("sum"), read_norm("none", {"none", "attention", "layernorm"}),
                beta_max()},
      .inputs = {{"beta"}},
      .build = [](auto& m) {
        const auto [q, k] = features(m);
        const auto beta = beta_gate(m, "gate");
        if (m.text("read_norm") == "attention") return divided_read(m, q, k, beta);
        const bool contracting = normalised(m);  // then |k| <= 1, and beta <= 2
        return normalised_read(
            m, read(m, q, {.key = k, .gain = beta, .erase = Erase::delta, .contracting = contracting}));
      }};
}
