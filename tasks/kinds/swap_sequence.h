// swap: n bindings, then operations that exchange the values of two keys (state tracking; DeltaFormer, arXiv
// 2505.19488).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/swap_tokens.h"
#include "tasks/sequence_common.h"

namespace crosstalk {

/// [keys by slot first | values by slot first | value of each key], or what the layouts of single tokens need.
CT_HD inline std::int32_t swap_scratch_size(const SwapSpec& spec) {
  return spec.keys + spec.values + (spec.layout == SwapLayout::fused ? spec.keys : 4 * spec.associations);
}

CT_HD inline void swap_sequence(const SwapSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = sequence_stream(data_seed, split, n + (static_cast<std::uint64_t>(spec.part) << 48));
  if (spec.layout == SwapLayout::tag) return swap_tokens::tag(spec, random, out, scratch);
  if (spec.layout == SwapLayout::split) return swap_tokens::split(spec, random, out, scratch);
  std::int32_t* keys = scratch;
  std::int32_t* values = keys + spec.keys;
  std::int32_t* value_of = values + spec.values;
  const std::int32_t bindings = spec.associations, operations = out.shape.T - bindings, Q = out.shape.Q;
  count_up(keys, spec.keys);
  count_up(values, spec.values);
  arrange(random, keys, spec.keys, bindings);
  arrange(random, values, spec.values, bindings);
  for (std::int32_t slot = 0; slot < bindings; ++slot) put_write(out, slot, keys[slot], values[slot]);

  std::int32_t q = 0;
  for (std::int32_t operation = 0; operation < operations; ++operation) {
    const std::int32_t t = bindings + operation;
    const double kind = random.uniform();
    const std::int32_t a = draw_below(random, bindings);
    if (kind < spec.identity_fraction) {
      put_token(out, t, Role::identity, keys[a], -1, keys[a]);
    } else if (kind < spec.identity_fraction + spec.set_fraction) {
      values[a] = draw_below(random, spec.values);
      put_write(out, t, keys[a], values[a]);
    } else {
      std::int32_t b = draw_below(random, bindings - 1);
      if (b >= a) ++b;
      put_token(out, t, Role::swap, keys[a], -1, keys[b]);
      const std::int32_t value = values[a];
      values[a] = values[b];
      values[b] = value;
    }
    if (!spec.query_every) continue;
    // Drawn after every operation even if fewer are asked, so that those are among the full set's. Fewer
    // queries spread evenly over the sequence; the last one stands at its end.
    const std::int32_t asked = draw_below(random, bindings);
    if (operation + 1 == (static_cast<std::int64_t>(q) + 1) * operations / Q)
      put_query(out, q++, keys[asked], t + 1, values[asked], bindings);
  }
  if (spec.query_every) return;

  for (std::int32_t key = 0; key < spec.keys; ++key) value_of[key] = -1;
  for (std::int32_t slot = 0; slot < bindings; ++slot) value_of[keys[slot]] = values[slot];
  if (!is_train(split)) {
    put_all_queries(out, value_of, spec.keys, bindings);
    return;
  }
  arrange(random, keys, bindings, Q);
  for (q = 0; q < Q; ++q) put_query(out, q, keys[q], out.shape.T, value_of[keys[q]], bindings);
}

}  // namespace crosstalk
