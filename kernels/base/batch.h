// A batch of sequences as tasks write it and models read it: the only thing that the two share.
//
// R replicas, B sequences each, T positions, C channels a position, Q query slots a sequence. All integers
// are int32, row-major, replica-major. -1 means absent everywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

#include "kernels/base/host_device.h"

namespace crosstalk {

/// A position's role. Only for people and reference machines; models read the channels.
enum class Role : std::int32_t {
  pad = 0,
  write = 1,
  swap = 2,
  identity = 3,
  ask = 4,       ///< where C = 1: an answer is due here, and the token only asks
  multiply = 5,  ///< where C = 1: one more factor of a product
};

/// Channels of a fused token. A token of the language model has one channel, its id.
enum Channel : int {
  channel_token = 0,
  channel_key = 0,         ///< key written (write) or first key exchanged (swap); every token has one
  channel_value = 1,       ///< value written; -1 = none (zero value vector)
  channel_second_key = 2,  ///< second key exchanged (swap); -1 = none
};

/// Integers kept beside each query, for accuracy by bucket.
enum Meta : int {
  meta_gap = 0,         ///< positions between the write that set the answer and the read
  meta_writes = 1,      ///< times that the asked key was written before the read
  meta_age = 2,         ///< tokens after the last token that touched the asked key
  meta_touches = 3,     ///< swaps that moved the asked key's content
  meta_operations = 4,  ///< operations (after the initial bindings) before the read
  meta_count = 5,
};

/// Facts for a model about a task's tokens.
struct Vocabulary {
  int keys = 0;             ///< key ids are 0 .. keys-1; none where tokens > 0
  int values = 0;           ///< value ids, the answers, are 0 .. values-1
  bool second_key = false;  ///< whether channel_second_key is used
  int tokens = 0;           ///< where C = 1: token ids are 0 .. tokens-1; else 0
  int numbers = 0;          ///< real inputs of an example, where tokens are examples; else 0
};

/// Where vocabulary.numbers = n > 0, a token is an example (x, y), n real inputs and their output, and beside it one of which
/// y is asked: channels x_1 .. x_n, y, x'_1 .. x'_n, y', C = 2 (n + 1), all whole multiples of this. Query slot q asks the
/// example beside token q; its target is 0, and what is right is y'.
inline constexpr double kNumberUnit = 1.0 / (1 << 20);

/// Sizes of one sequence; equal for all sequences of a batch.
struct SequenceShape {
  int T = 0;  ///< positions
  int C =
      2;  ///< channels: 1 (token), 2 (key, value), 3 (key, value, second key) or 2 (n + 1) (examples: kNumberUnit)
  int Q = 1;  ///< query slots; unused ones have target -1
  friend bool operator==(const SequenceShape&, const SequenceShape&) = default;
};

/// One sequence: pointers into a batch (or into a scratch buffer).
struct SequenceView {
  SequenceShape shape;
  std::int32_t* tokens = nullptr;  ///< [T,C]
  std::int32_t* role = nullptr;    ///< [T], Role; may be null
  /// [Q] key asked; where C = 1, the token at which the answer is due.
  std::int32_t* query = nullptr;
  /// [Q] number of tokens that the read sees (T = whole sequence). Where C = 1 the answer is due at token
  /// query_position - 1, and used slots stand in rising order of it.
  std::int32_t* query_position = nullptr;
  std::int32_t* target = nullptr;  ///< [Q] value id that is right; -1 = unused slot
  std::int32_t* meta = nullptr;    ///< [Q, meta_count]; may be null
};

}  // namespace crosstalk
