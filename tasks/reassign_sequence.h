// reassign: keys written with replacement, the last value wins (Schlag et al. 2021, arXiv 2102.11174, section
// 6.1.2); or every key written once, then a stated number of updates.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct ReassignSpec {
  std::int32_t associations = 0;  ///< S: keys in play
  std::int32_t keys = 0;          ///< size of the key vocabulary, >= S
  std::int32_t values = 0;        ///< size of the value vocabulary
  std::int32_t updates = -1;      ///< updates after the S bindings; -1 = keys drawn with replacement
  std::int32_t max_length = 0;    ///< longest training sequence
  bool query_by_element = true;   ///< training asks the key of a random token, else a random key present
};

/// [keys in play first | value of each key | elements]
CT_HD inline std::int32_t reassign_scratch_size(const ReassignSpec& spec) {
  return 2 * spec.keys + spec.max_length;
}

CT_HD inline void reassign_sequence(const ReassignSpec& spec, std::uint64_t data_seed, Split split,
                                    std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = sequence_stream(data_seed, split, n);
  std::int32_t* keys = scratch;
  std::int32_t* value_of = keys + spec.keys;
  std::int32_t* elements = value_of + spec.keys;
  const std::int32_t T = out.shape.T, S = spec.associations;
  const bool with_replacement = spec.updates < 0;
  const std::int32_t initial = with_replacement ? T : S;
  count_up(keys, spec.keys);
  for (std::int32_t key = 0; key < spec.keys; ++key) value_of[key] = -1;
  if (with_replacement) {
    if (spec.keys > S) arrange(random, keys, spec.keys, S);
    for (std::int32_t t = 0; t < T; ++t) {
      const std::int32_t key = keys[draw_below(random, S)];
      value_of[key] = draw_below(random, spec.values);
      put_write(out, t, key, value_of[key]);
    }
  } else {
    arrange(random, keys, spec.keys, S);
    for (std::int32_t t = 0; t < S; ++t) {
      value_of[keys[t]] = draw_below(random, spec.values);
      put_write(out, t, keys[t], value_of[keys[t]]);
    }
    arrange(random, keys, S, spec.updates);
    for (std::int32_t u = 0; u < spec.updates; ++u) {
      std::int32_t value = draw_below(random, spec.values - 1);
      if (value >= value_of[keys[u]]) ++value;  // any value but the present one
      value_of[keys[u]] = value;
      put_write(out, S + u, keys[u], value);
    }
  }
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
