// Doors of the recurrence engine: every way in which a read or its weights are computed, what each covers, and where it pays.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>

#include "models/engines.h"

namespace crosstalk {

/// Key channels of a state that erases, and values of a head, that chunks on a GPU hold.
inline constexpr int kMostInChunks = 128;

enum class Door {
  // what is read from states
  registers,  ///< DiagonalRead: rows that fade at rates of their own, in a GPU's registers
  rows,       ///< StateRead with a head for each such row
  walk,       ///< StateRead token after token
  chunks,  ///< StateRead from chunk to chunk, in several heads where one has too many values (cuts_of_values)
  key_sum,  ///< Scan: the keys added up, what values of 1 read
  // from weights of tokens
  scores,        ///< Attend: products of queries and keys, of the sum rule
  query,         ///< ReadWeights from the side of the queries
  tiles,         ///< ReadWeights of many queries, by a form of the op
  pairs,         ///< Attend of all pairs of tokens, and Solve where the memory erases
  one_hot,       ///< StateRead from chunk to chunk, of values that name the tokens
  delta_values,  ///< Attend, of what the delta rule writes (DeltaValues)
  solve_values,  ///< Attend, of what an erase leaves to write (SolveValues)
};

/// Facts of a read from which its door follows: kind, sizes and device, no numbers.
struct ReadFacts {
  RecurrenceKind kind = {};
  Form asked = Form::automatic;  ///< memory.form
  bool cuda = false, single = true;
  Precision products = Precision::full;
  std::int64_t B = 1, H = 1, T = 1, Q = 1, K = 1;
  std::int64_t V = 1, values = 1;  ///< of the model; of what is written
  std::int64_t chunk = 1;          ///< tokens of a chunk
  bool own_heads = true;           ///< keys have the model's heads
  bool decays = false, gained = false, before = false, of_ones = false, divided = false;
  bool starts = false;        ///< a state before the first token is given
  bool keeps = false;         ///< the state goes to somebody, or comes from somebody
  bool from_weights = false;  ///< values are ids, or somebody looks at the weights
  bool at_tokens = false;     ///< a query stands at every token
  bool between_tokens = false;
  std::function<bool()> has_form =
      {};  ///< asked at last: a GPU's kernel of DiagonalRead, ReadWeights or DeltaValues covers it

  /// The sum rule: what is written stays as it is.
  bool is_plain() const { return kind.erase == Erase::none && !kind.several_writes && !gained && !decays; }
};

/// Door of a read by its form; of weights all are of the form query.
struct DoorOf {
  Door door;
  Form form;
};
/// The first door of the table that covers the read and pays, or has the form that is asked for; nullptr: none covers it.
const DoorOf* door_of_read(const ReadFacts& facts);
/// The same for its weights, which have a door always.
Door door_of_weights(const ReadFacts& facts);
/// Heads, equal but for their values, into which one with V values is split for a GPU's chunks: of up to 128 values, the faster
/// ones of as many values as keys; 1: not split.
int cuts_of_values(const ReadFacts& facts, std::int64_t V);

}  // namespace crosstalk
