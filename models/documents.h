// Several documents in one sequence: cut at resets, and calculated as sequences of their own, those of one length together.
//
// A memory sees nothing but a document's own tokens then, so that states, convolutions, shifts, rotations and positions begin anew,
// and numbers are those of the documents one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

/// Documents of one length, as the sequences of one call.
struct DocumentGroup {
  int length = 0;
  bool goes_on = false;             ///< from the states before the first token
  std::vector<std::int64_t> first;  ///< of each document the row of [B,T] where it begins
};

struct Documents {
  int B = 0, T = 0;
  std::vector<DocumentGroup> groups;
  std::vector<std::int64_t> last;  ///< [B], the last document of each sequence, counted through all groups
};

/// From `reset` [B,T], 1 where a document begins. With `starts` there are states before the first token, of which a sequence goes on
/// that does not begin with a 1. Throws std::invalid_argument for what is neither 0 nor 1.
Documents documents_of(const std::vector<std::int64_t>& reset, int B, int T, bool starts);

/// The reset [1,T] of lengths that were added up: 0, ..., T. The first document goes on from states that are given.
std::vector<std::int64_t> reset_of(const std::vector<std::int64_t>& cu_seqlens, int B, int T);

/// What an input is for: a row a token, a state before the first, or a parameter of all sequences.
enum class InputPart { tokens, start, shared };
inline InputPart part_of(const std::string& shape) {
  return shape.rfind("[B,T", 0) == 0 ? InputPart::tokens
         : shape.rfind("[B", 0) == 0 ? InputPart::start
                                     : InputPart::shared;
}

}  // namespace crosstalk
