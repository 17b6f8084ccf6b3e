// tokens: sequences of single tokens that somebody made, read from files. Training goes through them epoch after epoch,
// each in an order of its own or as they stand; validation and test take them as they stand.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "tasks/kinds/file_sequence.h"

namespace crosstalk {

/// Integers as a file has them: of 1, 2, 4 or 8 bytes, signed or not.
struct TokenNumbers {
  const void* at = nullptr;
  std::int32_t bytes = 0;
  bool is_signed = true;

  CT_HD std::int64_t operator[](std::int64_t i) const {
    switch (is_signed ? bytes : -bytes) {
      case 1:
        return static_cast<const std::int8_t*>(at)[i];
      case 2:
        return static_cast<const std::int16_t*>(at)[i];
      case 4:
        return static_cast<const std::int32_t*>(at)[i];
      case -1:
        return static_cast<const std::uint8_t*>(at)[i];
      case -2:
        return static_cast<const std::uint16_t*>(at)[i];
      case -4:
        return static_cast<const std::uint32_t*>(at)[i];
      default:
        return static_cast<const std::int64_t*>(at)[i];  // unsigned ones, too: they were checked to be small
    }
  }
};

/// A document inside a row of the file, a sequence of its own.
struct TokenDocument {
  std::int64_t begin = 0;  ///< of all numbers of the file
  std::int64_t length = 0;
};

/// The sequences of one split, in memory of the device that draws.
struct TokensPart {
  TokenNumbers tokens;                       ///< [N,T]
  TokenNumbers targets;                      ///< [N,slots], below 0 = none
  TokenNumbers positions;                    ///< [N,slots], from 0, rising; absent: slot t is token t
  const TokenDocument* documents = nullptr;  ///< what counts as a row below; absent: rows of the file
  const std::int32_t* rows = nullptr;        ///< [N] rows that this part has; absent: all
  std::uint32_t N = 0;
  std::int32_t T = 0;      ///< of a sequence, filled up where a document is shorter
  std::int32_t slots = 0;  ///< of a row of the file
  std::int32_t Q = 0;      ///< the most answers of a sequence
};

struct TokensSpec {
  TokensPart part[3];  ///< by Split
  bool shuffled = true;
};

CT_HD inline std::int32_t tokens_scratch_size(const TokensSpec&) { return 0; }

/// Which row sequence n is.
CT_HD inline std::int64_t tokens_row(const TokensSpec& spec, std::uint64_t data_seed, Split split,
                                     std::uint64_t n) {
  const TokensPart& part = spec.part[static_cast<std::uint32_t>(split)];
  auto number = static_cast<std::uint32_t>(n % part.N);
  if (is_train(split) && spec.shuffled)
    number = shuffled_place(sequence_stream(data_seed, split, n / part.N), number, part.N);
  return part.rows ? part.rows[number] : static_cast<std::int64_t>(number);
}

CT_HD inline void put_tokens(const TokensPart& part, std::int64_t row, const SequenceView& out) {
  const TokenDocument whole = {row * part.T, part.T};
  const TokenDocument one = part.documents ? part.documents[row] : whole;
  for (std::int32_t t = 0; t < part.T; ++t)
    put_id(out, t, Role::pad, t < one.length ? static_cast<std::int32_t>(part.tokens[one.begin + t]) : 0);
  const std::int64_t first = part.documents ? one.begin : row * part.slots;
  const auto slots = part.documents ? static_cast<std::int32_t>(one.length) : part.slots;
  std::int64_t all = 0;
  for (std::int32_t i = 0; i < slots; ++i) all += part.targets[first + i] >= 0;
  const std::int64_t Q = all < out.shape.Q ? all : out.shape.Q;
  // Where fewer are wanted they spread evenly, and the last one stays.
  std::int64_t before = 0;
  for (std::int32_t i = 0; i < slots; ++i) {
    const auto target = static_cast<std::int32_t>(part.targets[first + i]);
    if (target < 0) continue;
    const std::int64_t q = (++before * Q + all - 1) / all;
    if (q * all / Q != before) continue;
    const auto t = part.positions.at ? static_cast<std::int32_t>(part.positions[first + i]) : i;
    put_due(out, static_cast<std::int32_t>(q - 1), t, target);
    if (out.role) out.role[t] = static_cast<std::int32_t>(Role::ask);
  }
  put_unused_queries(out, static_cast<std::int32_t>(Q));
}

CT_HD inline void tokens_sequence(const TokensSpec& spec, std::uint64_t data_seed, Split split,
                                  std::uint64_t n, const SequenceView& out, std::int32_t*) {
  put_tokens(spec.part[static_cast<std::uint32_t>(split)], tokens_row(spec, data_seed, split, n), out);
}

}  // namespace crosstalk
