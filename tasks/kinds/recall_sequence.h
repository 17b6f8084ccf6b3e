// recall: S associations without replacement, then reads of stored keys (Schlag et al. 2021, arXiv
// 2102.11174, section 6.1.1).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct RecallSpec {
  std::int32_t associations = 0;  ///< S: tokens, each a new key and a new value
  std::int32_t keys = 0;          ///< size of the key vocabulary, >= S
  std::int32_t values = 0;        ///< size of the value vocabulary, >= S
};

/// [keys in order | values in order | value of each key]
CT_HD inline std::int32_t recall_scratch_size(const RecallSpec& spec) { return 2 * spec.keys + spec.values; }

CT_HD inline void recall_sequence(const RecallSpec& spec, std::uint64_t data_seed, Split split,
                                  std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = sequence_stream(data_seed, split, n);
  std::int32_t* keys = scratch;
  std::int32_t* values = keys + spec.keys;
  std::int32_t* value_of = values + spec.values;
  count_up(keys, spec.keys);
  count_up(values, spec.values);
  arrange(random, keys, spec.keys, spec.associations);
  arrange(random, values, spec.values, spec.associations);
  for (std::int32_t key = 0; key < spec.keys; ++key) value_of[key] = -1;
  for (std::int32_t t = 0; t < spec.associations; ++t) {
    put_write(out, t, keys[t], values[t]);
    value_of[keys[t]] = values[t];
  }
  if (!is_train(split)) {
    put_all_queries(out, value_of, spec.keys, 0);
    return;
  }
  arrange(random, keys, spec.associations, out.shape.Q);  // distinct stored keys, any order
  for (std::int32_t q = 0; q < out.shape.Q; ++q)
    put_query(out, q, keys[q], spec.associations, value_of[keys[q]], 0);
}

}  // namespace crosstalk
