// mqar: multi-query associative recall in token form (Arora et al. 2023, arXiv 2312.04927; layout, labels and the law of gaps
// are those of Zoology's data/multiquery_ar.py).
//
//   [k1 v1 k2 v2 .. kD vD] x passes, then updates (a key of them with another value), then slots of two tokens: D
//   different slots begin with a key, each key once.
//
// Slots are drawn one after the other without replacement, slot i = 1 .. n with weight i^(power - 1), and go to the keys
// in the order of the context. Drawn at once: the order of arrival where slot i waits E_i / weight_i, E_i exponential.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/normal.h"
#include "tasks/sequence_common.h"
#include "tasks/team.h"

namespace crosstalk {

struct MqarSpec {
  std::int32_t keys = 0;       ///< ids 1 .. keys; 0 is blank
  std::int32_t values = 0;     ///< ids keys + 1 .. keys + values
  std::int32_t length = 0;     ///< T, even; holds the context and D slots
  std::int32_t pairs = 0;      ///< D
  std::int32_t passes = 1;     ///< times that the pairs are shown
  std::int32_t updates = 0;    ///< different keys that get another value after that
  double power = 0.01;         ///< of the law of gaps; 1 = uniform
  bool random_filler = false;  ///< tokens between the queries: any, or blank
  std::uint32_t part = 0;      ///< segments of a mixture draw from different sequences
  std::uint64_t examples = 0;  ///< training has this many sequences; 0 = no end

  CT_HD std::int32_t vocabulary() const { return 1 + keys + values; }
  CT_HD std::int32_t first_value() const { return 1 + keys; }
  CT_HD std::int32_t bindings() const { return 2 * pairs * passes; }
  CT_HD std::int32_t context() const { return bindings() + 2 * updates; }
  CT_HD std::int32_t slots() const { return (length - context()) / 2; }
};

/// Slots of a sequence, rounded up to a power of two: what is sorted.
CT_HD inline std::int32_t mqar_sorted_size(const MqarSpec& spec) {
  std::int32_t size = 1;
  while (size < spec.slots()) size *= 2;
  return size;
}

/// [arrivals of slots, 64 bit each | pair that a slot asks, else -1 | keys | values | bitmap | update of a pair, else -1 |
/// pairs updated | their values]
CT_HD inline std::int32_t mqar_scratch_size(const MqarSpec& spec) {
  const std::int32_t largest = spec.keys > spec.values ? spec.keys : spec.values;
  return 2 * mqar_sorted_size(spec) + spec.slots() + 2 * spec.pairs + bitmap_words(largest) +
         (spec.updates > 0 ? spec.pairs + 2 * spec.updates : 0);
}

namespace mqar {

constexpr std::uint32_t kSlots = 0, kFiller = 1u << 28, kKeys = 2u << 28, kValues = 3u << 28,
                        kUpdated = 4u << 28, kNewValues = 5u << 28;

/// log(E / weight) of a slot as a number whose order is that of arrival; the slot stands in the lowest 16 bits.
CT_HD inline std::uint64_t arrival(std::uint32_t word, std::int32_t slot, double power) {
  const double u = (static_cast<double>(word) + 0.5) * (1.0 / 4294967296.0);
  const double x = detail::portable_log(-detail::portable_log(u)) +
                   (1.0 - power) * detail::portable_log(static_cast<double>(slot + 1));
  const std::uint64_t bits = detail::bits_of(x), sign = 1ull << 63;
  const std::uint64_t rising = (bits & sign) != 0 ? ~bits : bits | sign;
  return (rising & ~0xffffull) | static_cast<std::uint64_t>(slot);
}

}  // namespace mqar

template <class Team>
CT_HD void mqar_write(const Team& team, const MqarSpec& spec, std::uint64_t data_seed, Split split,
                      std::uint64_t n, const SequenceView& out, std::int32_t* scratch) {
  if (is_train(split) && spec.examples > 0) n %= spec.examples;
  const RandomStream stream =
      sequence_stream(data_seed, split, n + (static_cast<std::uint64_t>(spec.part) << 48));
  const std::int32_t D = spec.pairs, slots = spec.slots(), sorted = mqar_sorted_size(spec),
                     context = spec.context(), lanes = team.lanes(), lane = team.lane();
  auto* arrivals = reinterpret_cast<std::uint64_t*>(scratch);
  std::int32_t* pair_of = scratch + 2 * sorted;
  std::int32_t* keys = pair_of + slots;
  std::int32_t* values = keys + D;
  std::int32_t* seen = values + D;
  std::int32_t* update_of = seen + bitmap_words(spec.keys > spec.values ? spec.keys : spec.values);
  std::int32_t* updated = update_of + D;
  std::int32_t* new_values = updated + spec.updates;

  for (std::int32_t four = lane; 4 * four < sorted; four += lanes) {
    const auto words = stream.block(mqar::kSlots + static_cast<std::uint32_t>(four));
    for (std::int32_t i = 0; i < 4; ++i) {
      const std::int32_t slot = 4 * four + i;
      if (slot < sorted) arrivals[slot] = slot < slots ? mqar::arrival(words.v[i], slot, spec.power) : ~0ull;
      if (slot < slots) pair_of[slot] = -1;
    }
  }
  team.sync();
  sort_rising(team, arrivals, sorted);
  for (std::int32_t pair = lane; pair < D; pair += lanes)
    pair_of[static_cast<std::int32_t>(arrivals[pair] & 0xffff)] = pair;
  draw_distinct(team, stream, mqar::kKeys, spec.keys, D, keys, seen);
  draw_distinct(team, stream, mqar::kValues, spec.values, D, values, seen);
  team.sync();
  if (spec.updates > 0) {
    for (std::int32_t pair = lane; pair < D; pair += lanes) update_of[pair] = -1;
    draw_distinct(team, stream, mqar::kUpdated, D, spec.updates, updated, seen);
    team.sync();
    for (std::int32_t u = lane; u < spec.updates; u += lanes) {
      const auto drawn = static_cast<std::int32_t>(
          RandomStream::scaled(word_of(stream, mqar::kNewValues, static_cast<std::uint32_t>(u)),
                               static_cast<std::uint32_t>(spec.values - 1)));
      new_values[u] = drawn < values[updated[u]] ? drawn : drawn + 1;  // any value but the present one
      update_of[updated[u]] = u;
    }
    team.sync();
  }

  const auto key_of = [&](std::int32_t pair) { return 1 + keys[pair]; };
  const auto update = [&](std::int32_t pair) { return spec.updates > 0 ? update_of[pair] : -1; };
  const std::int32_t bindings = spec.bindings();
  for (std::int32_t four = lane; 4 * four < spec.length; four += lanes) {
    const bool fill = spec.random_filler && 4 * four + 3 >= context;
    const auto words =
        fill ? stream.block(mqar::kFiller + static_cast<std::uint32_t>(four)) : r123::Philox4x32::ctr_type{};
    for (std::int32_t i = 0; i < 4 && 4 * four + i < spec.length; ++i) {
      const std::int32_t t = 4 * four + i, after = t - context, late = t - bindings;
      const bool key = t % 2 == 0;
      std::int32_t pair = -1, value = 0;
      if (late < 0) {
        pair = t / 2 % D;
        value = values[pair];
      } else if (after < 0) {
        pair = updated[late / 2];
        value = new_values[late / 2];
      } else if (key) {
        pair = pair_of[after / 2];
      }
      out.tokens[t] = pair >= 0 ? (key ? key_of(pair) : spec.first_value() + value)
                                : static_cast<std::int32_t>(RandomStream::scaled(
                                      fill ? words.v[i] : 0, static_cast<std::uint32_t>(spec.vocabulary())));
      if (out.role)
        out.role[t] = static_cast<std::int32_t>(after < 0 ? Role::write : pair >= 0 ? Role::ask : Role::pad);
    }
  }

  // Queries in the order of their places. Where fewer are wanted they spread evenly, and the last one stays.
  std::int32_t before = 0;
  const std::int64_t Q = out.shape.Q;
  for (std::int32_t base = 0; base < slots; base += lanes) {
    const std::int32_t slot = base + lane, pair = slot < slots ? pair_of[slot] : -1;
    int all = 0;
    const std::int64_t number = 1 + before + team.rank(pair >= 0, all), q = (number * Q + D - 1) / D;
    before += all;
    if (pair < 0 || q * D / Q != number) continue;
    const std::int32_t position = context + 2 * slot + 1;
    out.query[q - 1] = key_of(pair);
    out.query_position[q - 1] = position;
    const std::int32_t u = update(pair);
    out.target[q - 1] = spec.first_value() + (u < 0 ? values[pair] : new_values[u]);
    if (!out.meta) continue;
    std::int32_t* meta = out.meta + (q - 1) * meta_count;
    const std::int32_t written = u < 0 ? 2 * D * (spec.passes - 1) + 2 * pair + 1 : bindings + 2 * u + 1;
    meta[meta_gap] = meta[meta_age] = position - 1 - written;
    meta[meta_writes] = spec.passes + (u < 0 ? 0 : 1);
    meta[meta_touches] = meta[meta_operations] = 0;
  }
}

CT_HD inline void mqar_sequence(const MqarSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                const SequenceView& out, std::int32_t* scratch) {
  mqar_write(Solo(), spec, data_seed, split, n, out, scratch);
}

}  // namespace crosstalk
