// What every sequence generator needs: its random stream, arrangements without replacement, tokens, queries.
//
// Compiled for the CPU and for CUDA (one thread writes one sequence): no allocation, no exceptions, no
// recursion. The order in which a generator draws is part of the data format: changing it changes every
// result.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/batch.h"
#include "kernels/base/host_device.h"
#include "kernels/base/random.h"

namespace crosstalk {

enum class Split : std::uint32_t;  // tasks/task.h; 0 is train (checked in fused_task.cpp)

CT_HD inline bool is_train(Split split) { return static_cast<std::uint32_t>(split) == 0; }

/// The stream of sequence `n`: it depends on nothing that was drawn before.
CT_HD inline RandomStream sequence_stream(std::uint64_t data_seed, Split split, std::uint64_t n) {
  const auto domain = static_cast<RandomDomain>(static_cast<std::uint32_t>(RandomDomain::task_train) +
                                                static_cast<std::uint32_t>(split));
  return RandomStream(data_seed, domain, static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n >> 32));
}

/// The stream of sequence `n` of a task whose training may have an end: Spec::examples sequences, 0 = none.
template <class Spec>
CT_HD RandomStream stream_of(const Spec& spec, std::uint64_t data_seed, Split split, std::uint64_t n) {
  return sequence_stream(data_seed, split, is_train(split) && spec.examples > 0 ? n % spec.examples : n);
}

/// pool = 0 .. size-1.
CT_HD inline void count_up(std::int32_t* pool, std::int32_t size) {
  for (std::int32_t i = 0; i < size; ++i) pool[i] = i;
}

/// A whole number below `n`, as the signed type of tokens.
CT_HD inline std::int32_t draw_below(RandomStream& random, std::int32_t n) {
  return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(n)));
}

/// Partial Fisher-Yates: pool[0, count) becomes a uniformly random arrangement of `count` of the `size`
/// elements.
CT_HD inline void arrange(RandomStream& random, std::int32_t* pool, std::int32_t size, std::int32_t count) {
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t j = i + draw_below(random, size - i);
    const std::int32_t other = pool[j];
    pool[j] = pool[i];
    pool[i] = other;
  }
}

CT_HD inline void put_token(const SequenceView& out, std::int32_t t, Role role, std::int32_t key,
                            std::int32_t value, std::int32_t second_key) {
  std::int32_t* token = out.tokens + static_cast<std::int64_t>(t) * out.shape.C;
  token[channel_key] = key;
  token[channel_value] = value;
  if (out.shape.C > channel_second_key) token[channel_second_key] = second_key;
  if (out.role) out.role[t] = static_cast<std::int32_t>(role);
}

CT_HD inline void put_write(const SequenceView& out, std::int32_t t, std::int32_t key, std::int32_t value) {
  put_token(out, t, Role::write, key, value, -1);
}

/// Meta of a query: follows the asked key's content back through the tokens that the read sees.
/// `initial` is the number of leading tokens that count as bindings, not as operations.
CT_HD inline void put_meta(const SequenceView& out, std::int32_t q, std::int32_t key, std::int32_t position,
                           std::int32_t initial) {
  std::int32_t gap = 0, writes = 0, age = 0, touches = 0;
  bool found = false, touched = false;
  std::int32_t content = key;  // the key under which today's content lay before token t
  for (std::int32_t t = position - 1; t >= 0; --t) {
    const std::int32_t* token = out.tokens + static_cast<std::int64_t>(t) * out.shape.C;
    const std::int32_t a = token[channel_key];
    const bool write = token[channel_value] >= 0;
    const std::int32_t b = write ? a : token[channel_second_key];
    const bool swap = a != b;
    if (write && a == key) ++writes;
    if (swap && (a == key || b == key)) ++touches;
    if (!touched && (write || swap) && (a == key || b == key)) {
      touched = true;
      age = position - 1 - t;
    }
    if (!found && write && a == content) {
      found = true;
      gap = position - 1 - t;
    } else if (!found && swap) {
      content = content == a ? b : content == b ? a : content;
    }
  }
  std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
  meta[meta_gap] = gap;
  meta[meta_writes] = writes;
  meta[meta_age] = age;
  meta[meta_touches] = touches;
  meta[meta_operations] = position > initial ? position - initial : 0;
}

/// Query `q`: `key`, read after `position` tokens, holds `target`.
CT_HD inline void put_query(const SequenceView& out, std::int32_t q, std::int32_t key, std::int32_t position,
                            std::int32_t target, std::int32_t initial) {
  out.query[q] = key;
  out.query_position[q] = position;
  out.target[q] = target;
  if (out.meta) put_meta(out, q, key, position, initial);
}

/// Query slots from `q` on stay unused.
CT_HD inline void put_unused_queries(const SequenceView& out, std::int32_t q) {
  for (; q < out.shape.Q; ++q) {
    out.query[q] = 0;
    out.query_position[q] = 0;
    out.target[q] = -1;
    if (!out.meta) continue;
    for (std::int32_t m = 0; m < meta_count; ++m) out.meta[static_cast<std::int64_t>(q) * meta_count + m] = 0;
  }
}

/// Token t, a single id.
CT_HD inline void put_id(const SequenceView& out, std::int32_t t, Role role, std::int32_t id) {
  out.tokens[t] = id;
  if (out.role) out.role[t] = static_cast<std::int32_t>(role);
}

/// Tells whether answer number `i` of `all` is asked where only Q are: spread evenly, the last one among them.
CT_HD inline bool asked(std::int32_t i, std::int32_t all, std::int32_t q, std::int32_t Q) {
  return i + 1 == (static_cast<std::int64_t>(q) + 1) * all / Q;
}

/// Query `q` at the single id t, where `target` is due. Returns its meta numbers, all 0; nullptr where none are wanted.
CT_HD inline std::int32_t* put_due(const SequenceView& out, std::int32_t q, std::int32_t t,
                                   std::int32_t target) {
  out.query[q] = out.tokens[t];
  out.query_position[q] = t + 1;
  out.target[q] = target;
  if (!out.meta) return nullptr;
  std::int32_t* meta = out.meta + static_cast<std::int64_t>(q) * meta_count;
  for (std::int32_t m = 0; m < meta_count; ++m) meta[m] = 0;
  return meta;
}

/// Asks the keys that hold something (value_of >= 0) in ascending order at the end of the sequence, until the
/// query slots are used up.
CT_HD inline void put_all_queries(const SequenceView& out, const std::int32_t* value_of, std::int32_t keys,
                                  std::int32_t initial) {
  std::int32_t q = 0;
  for (std::int32_t key = 0; key < keys && q < out.shape.Q; ++key)
    if (value_of[key] >= 0) put_query(out, q++, key, out.shape.T, value_of[key], initial);
  put_unused_queries(out, q);
}

}  // namespace crosstalk
