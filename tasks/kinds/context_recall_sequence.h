// context_recall: keys that mean something else in every context: context-dependent associative recall (CDAR; Switching Linear
// Attention 2026, section 5.2) and joint recall (2507.00449).
//
// blocks:   c k v k v ..  for every context c, its keys in an order of its own
// triples:  c k v         for every key of every context, in one random order
//
// Then what is asked. zone: every context, in random order, has an equal part of the rest: c, then slots of two tokens, P
// different ones of which begin with a key. pair: slots of three tokens, some of which begin with c k. All else is blank, or any
// id. Slots are drawn as in mqar: one after the other without replacement, slot i with weight i^(power - 1); those drawn first go to the
// keys shown first.
//
// The value of the key in this context is due at the key; `confused` has the value of the same key in another context instead,
// the one with the next larger id.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/mqar_sequence.h"
#include "tasks/put_labels.h"

namespace crosstalk {

struct ContextRecallSpec {
  std::int32_t contexts = 0, pairs = 0;                      ///< of a sequence: C, and keys of a context, P
  std::int32_t context_ids = 0, key_ids = 0, value_ids = 0;  ///< 0 is blank, then these
  std::int32_t length = 0;                                   ///< T
  bool triples = false;
  bool by_zone = true;
  bool shared = true;          ///< all contexts have the same keys; else no two have one in common
  bool distinct = true;        ///< no value comes twice
  bool confused = false;       ///< targets are those of another context
  bool random_filler = false;  ///< what is blank otherwise is any id
  double power = 0.01;
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t records() const { return contexts * pairs; }
  CT_HD std::int32_t keys() const { return shared ? pairs : records(); }
  CT_HD std::int32_t first_key() const { return 1 + context_ids; }
  CT_HD std::int32_t first_value() const { return first_key() + key_ids; }
  CT_HD std::int32_t vocabulary() const { return first_value() + value_ids; }
  CT_HD std::int32_t shown() const { return triples ? 3 * records() : contexts + 2 * records(); }
  /// Tokens of a zone, and slots of it or of the whole rest.
  CT_HD std::int32_t zone() const { return (length - shown()) / contexts; }
  CT_HD std::int32_t slots() const { return by_zone ? (zone() - 1) / 2 : (length - shown()) / 3; }
  CT_HD std::int32_t slots_asked() const { return by_zone ? pairs : records(); }
};

/// [labels | record asked at a token | contexts | keys | values | order | written | slots | arrivals | bitmap]
CT_HD inline std::int32_t context_recall_scratch_size(const ContextRecallSpec& spec) {
  const std::int32_t ids = spec.key_ids > spec.value_ids ? spec.key_ids : spec.value_ids;
  return 2 * spec.length + 2 * spec.contexts + spec.keys() + 3 * spec.records() + 2 * spec.slots_asked() +
         bitmap_words(ids > spec.context_ids ? ids : spec.context_ids);
}

namespace context_recall {

constexpr std::uint32_t kContexts = 1u << 28, kKeys = 2u << 28, kValues = 3u << 28;

/// The first `count` of n slots in their order of arrival.
CT_HD inline void first_slots(RandomStream& random, std::int32_t n, std::int32_t count, double power,
                              std::int32_t* slots, std::int32_t* arrivals) {
  std::int32_t known = 0;
  for (std::int32_t slot = 0; slot < n; ++slot) {
    // The upper half of the number, moved so that the order of unsigned numbers is that of signed ones.
    const auto arrival = static_cast<std::int32_t>(
        static_cast<std::uint32_t>(mqar::arrival(random.next(), slot, power) >> 32) ^ 0x80000000u);
    if (known == count && arrival >= arrivals[count - 1]) continue;
    if (known < count) ++known;
    std::int32_t i = known - 1;
    for (; i > 0 && arrivals[i - 1] > arrival; --i) {
      arrivals[i] = arrivals[i - 1];
      slots[i] = slots[i - 1];
    }
    arrivals[i] = arrival;
    slots[i] = slot;
  }
}

}  // namespace context_recall

CT_HD inline void context_recall_sequence(const ContextRecallSpec& spec, std::uint64_t data_seed, Split split,
                                          std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  RandomStream random = stream_of(spec, data_seed, split, n);
  const std::int32_t C = spec.contexts, P = spec.pairs, records = spec.records(), T = spec.length;
  std::int32_t* labels = scratch;
  std::int32_t* asked = labels + T;
  std::int32_t* contexts = asked + T;
  std::int32_t* zones = contexts + C;
  std::int32_t* keys = zones + C;
  std::int32_t* values = keys + spec.keys();
  std::int32_t* order = values + records;
  std::int32_t* written = order + records;
  std::int32_t* slots = written + records;
  std::int32_t* arrivals = slots + spec.slots_asked();
  std::int32_t* seen = arrivals + spec.slots_asked();

  const Solo solo;
  draw_distinct(solo, random, context_recall::kContexts, spec.context_ids, C, contexts, seen);
  draw_distinct(solo, random, context_recall::kKeys, spec.key_ids, spec.keys(), keys, seen);
  if (spec.distinct) {
    draw_distinct(solo, random, context_recall::kValues, spec.value_ids, records, values, seen);
  } else {
    for (std::int32_t i = 0; i < records; ++i) values[i] = draw_below(random, spec.value_ids);
  }
  const auto context_token = [&](std::int32_t record) { return 1 + contexts[record / P]; };
  const auto key_token = [&](std::int32_t record) {
    return spec.first_key() + keys[spec.shared ? record % P : record];
  };
  const auto rival = [&](std::int32_t record) {  // the same key in the context with the next larger id
    const std::int32_t own = contexts[record / P];
    std::int32_t next = -1, smallest = 0;
    for (std::int32_t c = 0; c < C; ++c) {
      if (contexts[c] > own && (next < 0 || contexts[c] < contexts[next])) next = c;
      if (contexts[c] < contexts[smallest]) smallest = c;
    }
    return (next < 0 ? smallest : next) * P + record % P;
  };

  std::int32_t t = 0;
  for (std::int32_t i = 0; i < T; ++i) labels[i] = -1;
  const auto put = [&](std::int32_t token) { out.tokens[t++] = token; };
  // Records of block c are c P .. c P + P - 1; `order` is that in which all of them are shown.
  count_up(order, records);
  if (spec.triples) arrange(random, order, records, records);
  for (std::int32_t i = 0; i < records; ++i) {
    if (!spec.triples && i % P == 0) arrange(random, order + i, P, P);
    const std::int32_t record = order[i];
    if (spec.triples || i % P == 0) put(context_token(record));
    put(key_token(record));
    written[record] = t;
    put(spec.first_value() + values[record]);
  }
  const auto ask = [&](std::int32_t record) {
    const std::int32_t due = spec.confused ? rival(record) : record;
    asked[t] = record;
    labels[t] = spec.first_value() + values[due];
    put(key_token(record));
  };
  const std::int32_t shown = t;
  if (spec.by_zone) {
    count_up(zones, C);
    arrange(random, zones, C, C);
    for (std::int32_t z = 0; z < C; ++z) {
      const std::int32_t first = zones[z] * P;
      t = shown + z * spec.zone();
      put(context_token(first));
      for (std::int32_t i = 1; i < spec.zone(); ++i) put(0);
      context_recall::first_slots(random, spec.slots(), P, spec.power, slots, arrivals);
      // With triples a context's own order is that of all.
      for (std::int32_t i = 0, place = 0; i < records; ++i) {
        if (order[i] / P != zones[z]) continue;
        t = shown + z * spec.zone() + 1 + 2 * slots[place++];
        ask(order[i]);
      }
    }
    t = shown + C * spec.zone();
  } else {
    for (std::int32_t i = shown; i < T; ++i) out.tokens[i] = 0;
    context_recall::first_slots(random, spec.slots(), records, spec.power, slots, arrivals);
    for (std::int32_t i = 0; i < records; ++i) {
      t = shown + 3 * slots[i];
      put(context_token(order[i]));
      ask(order[i]);
    }
    t = T;
  }
  while (t < T) put(0);
  for (t = shown; spec.random_filler && t < T; ++t)
    if (out.tokens[t] == 0) out.tokens[t] = draw_below(random, spec.vocabulary());

  put_labels(out, labels, T);
  if (out.role)
    for (std::int32_t i = 0; i < shown; ++i) out.role[i] = static_cast<std::int32_t>(Role::write);
  if (!out.meta) return;
  for (std::int32_t q = 0; q < out.shape.Q; ++q) {
    if (out.target[q] < 0) continue;
    std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
    const std::int32_t at = out.query_position[q] - 1, record = asked[at];
    std::int32_t latest = written[record];
    for (std::int32_t c = 0; spec.shared && c < C; ++c)
      if (written[c * P + record % P] > latest) latest = written[c * P + record % P];
    meta[meta_gap] = at - written[record];
    meta[meta_writes] = spec.shared ? C : 1;
    meta[meta_age] = at - latest;
  }
}

}  // namespace crosstalk
