// file: sequences that somebody made, read from files. Training goes through them epoch after epoch, each in an order of its
// own or as they stand; validation and test take them as they stand.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/sequence_common.h"

namespace crosstalk {

/// The sequences of one split, in memory of the device that draws.
struct FilePart {
  const std::int32_t* tokens = nullptr;    ///< [N,T,C]; C above 3: examples of real numbers
  const std::int32_t* query = nullptr;     ///< [N,Q]
  const std::int32_t* position = nullptr;  ///< [N,Q]
  const std::int32_t* target = nullptr;    ///< [N,Q], -1 = unused; those come last
  std::uint32_t N = 0;
  std::int32_t T = 0, Q = 0;
};

struct FileSpec {
  FilePart part[3];  ///< by Split
  bool shuffled = true;
};

CT_HD inline std::int32_t file_scratch_size(const FileSpec&) { return 0; }

/// Where element i < N stands after a shuffle that `stream` decides, without a table: a Feistel network permutes the
/// numbers of 2h bits; what falls at N or above goes on until it falls below ("cycle walking"), which permutes 0 .. N-1.
CT_HD inline std::uint32_t shuffled_place(const RandomStream& stream, std::uint32_t i, std::uint32_t N) {
  constexpr std::uint32_t rounds = 8;
  std::uint32_t h = 2;
  while (h < 16 && (1u << (2 * h)) < N) ++h;
  const std::uint32_t mask = (1u << h) - 1;
  do {
    std::uint32_t left = i >> h, right = i & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const std::uint32_t other = left ^ (stream.block(round << 16 | right).v[0] & mask);
      left = right;
      right = other;
    }
    i = left << h | right;
  } while (i >= N);
  return i;
}

CT_HD inline Role role_of_token(std::int32_t key, std::int32_t value, std::int32_t second_key) {
  return value >= 0          ? Role::write
         : second_key < 0    ? Role::pad
         : second_key == key ? Role::identity
                             : Role::swap;
}

CT_HD inline void file_sequence(const FileSpec& spec, std::uint64_t data_seed, Split split, std::uint64_t n,
                                const SequenceView& out, std::int32_t*) {
  const FilePart& part = spec.part[static_cast<std::uint32_t>(split)];
  const std::uint64_t epoch = n / part.N;
  auto row = static_cast<std::uint32_t>(n % part.N);
  if (is_train(split) && spec.shuffled)
    row = shuffled_place(sequence_stream(data_seed, split, epoch), row, part.N);
  const std::int32_t* tokens = part.tokens + static_cast<std::int64_t>(row) * out.shape.T * out.shape.C;
  for (std::int32_t i = 0; i < out.shape.T * out.shape.C; ++i) out.tokens[i] = tokens[i];
  const bool examples = out.shape.C > channel_second_key + 1;  // of real numbers: kNumberUnit
  if (out.role)
    for (std::int32_t t = 0; t < out.shape.T; ++t) {
      const std::int32_t* token = tokens + static_cast<std::int64_t>(t) * out.shape.C;
      if (examples) {
        out.role[t] = static_cast<std::int32_t>(Role::write);
        continue;
      }
      const std::int32_t second = out.shape.C > channel_second_key ? token[channel_second_key] : -1;
      out.role[t] =
          static_cast<std::int32_t>(role_of_token(token[channel_key], token[channel_value], second));
    }
  const std::int64_t first = static_cast<std::int64_t>(row) * part.Q;
  std::int32_t q = 0;
  if (examples) put_unused_queries(out, 0);  // of these, meta stays 0
  for (; q < out.shape.Q && part.target[first + q] >= 0; ++q)
    if (examples) {
      out.query[q] = part.query[first + q];
      out.query_position[q] = part.position[first + q];
      out.target[q] = part.target[first + q];
    } else {
      put_query(out, q, part.query[first + q], part.position[first + q], part.target[first + q], 0);
    }
  put_unused_queries(out, q);
}

}  // namespace crosstalk
