// reassign in single tokens: [k v] for every write, then [QRY k], where the answer is due at k. With keys written once it is
// "remember" of ARMT, with keys written again "rewrite" (Rodkin et al. 2024, arXiv 2407.04841, appendix B).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

struct ReassignSpec {
  std::int32_t associations = 0;  ///< S: keys in play
  std::int32_t keys = 0;          ///< size of the key vocabulary, >= S
  std::int32_t values = 0;        ///< size of the value vocabulary
  std::int32_t updates = -1;      ///< updates after the S bindings; -1 = keys drawn with replacement
  std::int32_t length = 0;        ///< writes of a sequence
  bool query_by_element = true;   ///< training asks the key of a random token, else a random key present
  std::int32_t asked = 0;         ///< layout split: queries of a sequence; 0 = layout fused
  std::uint32_t part = 0;         ///< stages of a curriculum draw from different sequences
};

/// The writes of a sequence by put(t, key, value); keys[0 ..) are those in play first.
template <class Put>
CT_HD void reassign_writes(const ReassignSpec& spec, RandomStream& random, std::int32_t count,
                           std::int32_t* keys, std::int32_t* value_of, const Put& put) {
  const std::int32_t S = spec.associations;
  count_up(keys, spec.keys);
  for (std::int32_t key = 0; key < spec.keys; ++key) value_of[key] = -1;
  const auto write = [&](std::int32_t t, std::int32_t key, std::int32_t value) {
    value_of[key] = value;
    put(t, key, value);
  };
  if (spec.updates < 0) {
    if (spec.keys > S) arrange(random, keys, spec.keys, S);
    for (std::int32_t t = 0; t < count; ++t) {
      const std::int32_t key = keys[draw_below(random, S)];
      write(t, key, draw_below(random, spec.values));
    }
    return;
  }
  arrange(random, keys, spec.keys, S);
  for (std::int32_t t = 0; t < S; ++t) write(t, keys[t], draw_below(random, spec.values));
  arrange(random, keys, S, spec.updates);
  for (std::int32_t u = 0; u < spec.updates; ++u) {
    std::int32_t value = draw_below(random, spec.values - 1);
    if (value >= value_of[keys[u]]) ++value;  // any value but the present one
    write(S + u, keys[u], value);
  }
}

namespace reassign_tokens {

constexpr std::int32_t kAsk = 0, kFirstKey = 1;

/// [keys in play first | value of each key | element to ask | where it was written | how often], see scratch_size().
CT_HD inline void split(const ReassignSpec& spec, RandomStream random, const SequenceView& out,
                        std::int32_t* scratch) {
  std::int32_t* keys = scratch;
  std::int32_t* value_of = keys + spec.keys;
  std::int32_t* elements = value_of + spec.keys;
  std::int32_t* written = elements + spec.length;
  std::int32_t* writes = written + spec.keys;
  const std::int32_t Q = spec.asked, first_value = kFirstKey + spec.keys, count = out.shape.T / 2 - Q;
  for (std::int32_t key = 0; key < spec.keys; ++key) writes[key] = 0;
  reassign_writes(spec, random, count, keys, value_of,
                  [&](std::int32_t i, std::int32_t key, std::int32_t value) {
                    put_id(out, 2 * i, Role::write, kFirstKey + key);
                    put_id(out, 2 * i + 1, Role::write, first_value + value);
                    written[key] = 2 * i + 1;
                    ++writes[key];
                  });
  std::int32_t choices = count;  // what is asked: elements, or keys that are present
  if (spec.query_by_element) {
    for (std::int32_t i = 0; i < count; ++i) elements[i] = out.tokens[2 * i] - kFirstKey;
  } else {
    choices = 0;
    for (std::int32_t key = 0; key < spec.keys; ++key)
      if (value_of[key] >= 0) elements[choices++] = key;
  }
  arrange(random, elements, choices, Q < choices ? Q : choices);
  std::int32_t q = 0;
  for (std::int32_t i = 0; i < Q; ++i) {
    const std::int32_t key = elements[i % choices], t = 2 * (count + i) + 1;  // again where there are fewer
    put_id(out, t - 1, Role::ask, kAsk);
    put_id(out, t, Role::ask, kFirstKey + key);
    if (!asked(i, Q, q, out.shape.Q)) continue;
    if (std::int32_t* meta = put_due(out, q++, t, first_value + value_of[key])) {
      meta[meta_gap] = meta[meta_age] = t - written[key];
      meta[meta_writes] = writes[key];
    }
  }
}

}  // namespace reassign_tokens
}  // namespace crosstalk
