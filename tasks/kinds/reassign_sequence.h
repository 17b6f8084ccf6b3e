// reassign: keys written with replacement, the last value wins (Schlag et al. 2021, arXiv 2102.11174, section
// 6.1.2); or every key written once, then a stated number of updates.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/reassign_tokens.h"
#include "tasks/sequence_common.h"

namespace crosstalk {

/// [keys in play first | value of each key | elements], and for single tokens [where | how often written]
CT_HD inline std::int32_t reassign_scratch_size(const ReassignSpec& spec) {
  return 2 * spec.keys + spec.length + (spec.asked > 0 ? 2 * spec.keys : 0);
}

CT_HD inline void reassign_sequence(const ReassignSpec& spec, std::uint64_t data_seed, Split split,
                                    std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = sequence_stream(data_seed, split, n + (static_cast<std::uint64_t>(spec.part) << 48));
  if (spec.asked > 0) return reassign_tokens::split(spec, random, out, scratch);
  std::int32_t* keys = scratch;
  std::int32_t* value_of = keys + spec.keys;
  std::int32_t* elements = value_of + spec.keys;
  const std::int32_t T = out.shape.T, initial = spec.updates < 0 ? T : spec.associations;
  reassign_writes(spec, random, T, keys, value_of, [&](std::int32_t t, std::int32_t key, std::int32_t value) {
    put_write(out, t, key, value);
  });
  if (!is_train(split)) {
    put_all_queries(out, value_of, spec.keys, initial);
    return;
  }
  if (spec.query_by_element) {
    count_up(elements, T);
    arrange(random, elements, T, out.shape.Q);
    for (std::int32_t q = 0; q < out.shape.Q; ++q) {
      const std::int32_t key = out.tokens[static_cast<std::int64_t>(elements[q]) * out.shape.C + channel_key];
      put_query(out, q, key, T, value_of[key], initial);
    }
    return;
  }
  std::int32_t present = 0;  // from here on `keys` lists the keys present
  for (std::int32_t key = 0; key < spec.keys; ++key)
    if (value_of[key] >= 0) keys[present++] = key;
  const std::int32_t asked = out.shape.Q < present ? out.shape.Q : present;
  arrange(random, keys, present, asked);
  for (std::int32_t q = 0; q < asked; ++q) put_query(out, q, keys[q], T, value_of[keys[q]], initial);
  put_unused_queries(out, asked);
}

}  // namespace crosstalk
