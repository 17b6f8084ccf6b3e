// swap in single tokens. Two layouts:
//   tag    one token names a pair of places, which exchange what they hold; it starts as 0 1 .. n-1, and what lies at place
//          0 is asked after every operation (DeltaFormer, arXiv 2505.19488, appendix G.1)
//   split  [SET k v] .., [SWAP k k] .., and [QRY k], where the answer is due at k
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

enum class SwapLayout { fused, tag, split };

struct SwapSpec {
  std::int32_t associations = 0;   ///< n: keys in play, bound first
  std::int32_t keys = 0;           ///< size of the key vocabulary, >= n
  std::int32_t values = 0;         ///< size of the value vocabulary, >= n
  std::int32_t operations = 0;     ///< after the bindings
  double identity_fraction = 0.0;  ///< probability that an operation changes nothing
  double set_fraction = 0.0;       ///< probability that an operation writes a new value
  bool query_every = true;         ///< one query after every operation, else at the end only
  SwapLayout layout = SwapLayout::fused;
  std::int32_t queries = 1;  ///< keys asked at the end
  std::uint32_t part = 0;    ///< stages of a curriculum draw from different sequences
};

namespace swap_tokens {

// ids of the layout split; keys and values follow
constexpr std::int32_t kSet = 0, kSwap = 1, kAsk = 2, kFirstKey = 3;

/// Pairs a < b of n places in lexicographic order.
CT_HD inline std::int32_t pairs(std::int32_t n) { return n * (n - 1) / 2; }
CT_HD inline std::int32_t pair_id(std::int32_t n, std::int32_t a, std::int32_t b) {
  const std::int32_t low = a < b ? a : b, high = a < b ? b : a;
  return low * (2 * n - low - 1) / 2 + high - low - 1;
}

CT_HD inline void put_answer(const SequenceView& out, std::int32_t q, std::int32_t t, std::int32_t answer,
                             std::int32_t written, std::int32_t writes, std::int32_t touched,
                             std::int32_t touches, std::int32_t operations) {
  std::int32_t* meta = put_due(out, q, t, answer);
  if (!meta) return;
  meta[meta_gap] = t - written;
  meta[meta_writes] = writes;
  meta[meta_age] = t - touched;
  meta[meta_touches] = touches;
  meta[meta_operations] = operations;
}

CT_HD inline void tag(const SwapSpec& spec, RandomStream random, const SequenceView& out,
                      std::int32_t* scratch) {
  const std::int32_t n = spec.associations, T = out.shape.T;
  std::int32_t* element = scratch;
  count_up(element, n);
  std::int32_t q = 0, touched = -1, touches = 0;
  for (std::int32_t t = 0; t < T; ++t) {
    const double kind = random.uniform();
    const std::int32_t a = draw_below(random, n);
    std::int32_t b = draw_below(random, n - 1);
    if (b >= a) ++b;
    if (kind < spec.identity_fraction) {
      put_id(out, t, Role::identity, pairs(n));
    } else {
      put_id(out, t, Role::swap, pair_id(n, a, b));
      const std::int32_t other = element[a];
      element[a] = element[b];
      element[b] = other;
      if (a == 0 || b == 0) touched = t, ++touches;
    }
    if (spec.query_every ? asked(t, T, q, out.shape.Q) : t + 1 == T)
      put_answer(out, q++, t, element[0], -1, 0, touched, touches, t + 1);
  }
}

/// What a slot (the i-th key in play) holds, and its past.
struct Slots {
  std::int32_t *key, *value, *written, *writes, *touched, *touches;
};

CT_HD inline void split(const SwapSpec& spec, RandomStream random, const SequenceView& out,
                        std::int32_t* scratch) {
  const std::int32_t n = spec.associations;
  Slots s;
  s.key = scratch;
  s.value = s.key + spec.keys;
  s.written = s.value + spec.values;
  s.writes = s.written + n;
  s.touched = s.writes + n;
  s.touches = s.touched + n;
  count_up(s.key, spec.keys);
  count_up(s.value, spec.values);
  arrange(random, s.key, spec.keys, n);
  arrange(random, s.value, spec.values, n);
  const std::int32_t first_value = kFirstKey + spec.keys;
  std::int32_t t = 0;
  const auto set = [&](std::int32_t slot) {
    put_id(out, t++, Role::write, kSet);
    put_id(out, t++, Role::write, kFirstKey + s.key[slot]);
    put_id(out, t, Role::write, first_value + s.value[slot]);
    s.written[slot] = s.touched[slot] = t++;
  };
  for (std::int32_t slot = 0; slot < n; ++slot) {
    s.writes[slot] = 1, s.touches[slot] = 0;
    set(slot);
  }
  const std::int32_t ended = spec.query_every ? 0 : spec.queries,
                     operations =
                         spec.query_every ? (out.shape.T - t) / 5 : (out.shape.T - t - 2 * ended) / 3;
  std::int32_t q = 0;
  const auto ask = [&](std::int32_t slot, std::int32_t i, std::int32_t all, std::int32_t done) {
    put_id(out, t++, Role::ask, kAsk);
    put_id(out, t, Role::ask, kFirstKey + s.key[slot]);
    if (asked(i, all, q, out.shape.Q))
      put_answer(out, q++, t, first_value + s.value[slot], s.written[slot], s.writes[slot], s.touched[slot],
                 s.touches[slot], done);
    ++t;
  };
  for (std::int32_t operation = 0; operation < operations; ++operation) {
    const double kind = random.uniform();
    const std::int32_t a = draw_below(random, n);
    if (kind >= spec.identity_fraction && kind < spec.identity_fraction + spec.set_fraction) {
      s.value[a] = draw_below(random, spec.values);
      ++s.writes[a];
      set(a);
    } else {
      std::int32_t b = draw_below(random, n - 1);
      if (b >= a) ++b;
      if (kind < spec.identity_fraction) b = a;
      const Role role = a == b ? Role::identity : Role::swap;
      put_id(out, t++, role, kSwap);
      put_id(out, t++, role, kFirstKey + s.key[a]);
      put_id(out, t, role, kFirstKey + s.key[b]);
      if (a != b) {
        const std::int32_t value = s.value[a], written = s.written[a];
        s.value[a] = s.value[b], s.written[a] = s.written[b];
        s.value[b] = value, s.written[b] = written;
        s.touched[a] = s.touched[b] = t;
        ++s.touches[a], ++s.touches[b];
      }
      ++t;
    }
    if (spec.query_every) ask(draw_below(random, n), operation, operations, operation + 1);
  }
  // Distinct keys at the end, in random order: slots are exchanged, each with all that it holds.
  for (std::int32_t i = 0; i < ended; ++i) {
    const std::int32_t j = i + draw_below(random, n - i);
    std::int32_t* parts[] = {s.key, s.value, s.written, s.writes, s.touched, s.touches};
    for (std::int32_t* part : parts) {
      const std::int32_t other = part[j];
      part[j] = part[i];
      part[i] = other;
    }
    ask(i, i, ended, operations);
  }
}

}  // namespace swap_tokens
}  // namespace crosstalk
