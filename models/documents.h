// Several documents in one sequence: cut at resets, and calculated as sequences of their own, those of one length together.
//
// A memory sees nothing but a document's own tokens then, so that states, convolutions, shifts, rotations and positions begin anew,
// and numbers are those of the documents one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
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
inline Documents documents_of(const std::vector<std::int64_t>& reset, int B, int T, bool starts) {
  const auto at = [&](int b, int t) { return static_cast<std::size_t>(std::int64_t{b} * T + t); };
  for (std::size_t i = 0; i < reset.size(); ++i)
    if (reset[i] != 0 && reset[i] != 1)
      throw std::invalid_argument(fmt::format(
          "reset holds {} at [{},{}]; it is 1 where a document begins and 0 elsewhere, for example numbers[:, 1:] != numbers[:, :-1] "
          "of the documents' numbers, with a first column of 1",
          reset[i], i / static_cast<std::size_t>(T), i % static_cast<std::size_t>(T)));
  std::map<std::pair<int, bool>, std::vector<std::pair<int, int>>> found;  // b, t of each
  for (int b = 0; b < B; ++b)
    for (int t = 0, end = 0; t < T; t = end) {
      end = t + 1;
      while (end < T && reset[at(b, end)] == 0) ++end;
      found[{end - t, starts && t == 0 && reset[at(b, 0)] == 0}].emplace_back(b, t);
    }
  Documents documents{B, T, {}, std::vector<std::int64_t>(static_cast<std::size_t>(B))};
  std::int64_t number = 0;
  for (const auto& [kind, rows] : found) {
    DocumentGroup& group = documents.groups.emplace_back(DocumentGroup{kind.first, kind.second, {}});
    for (const auto& [b, t] : rows) {
      group.first.push_back(std::int64_t{b} * T + t);
      if (t + kind.first == T) documents.last[static_cast<std::size_t>(b)] = number;
      ++number;
    }
  }
  return documents;
}

/// The reset [1,T] of lengths that were added up: 0, ..., T. The first document goes on from states that are given.
inline std::vector<std::int64_t> reset_of(const std::vector<std::int64_t>& cu_seqlens, int B, int T) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format(
        "cu_seqlens {}; it holds where documents begin and end in one sequence: 0, ..., {}", why, T));
  };
  if (B != 1) refuse(fmt::format("cuts one sequence, B = 1, and there are {}; reset [B,T] cuts several", B));
  if (cu_seqlens.size() < 2 || cu_seqlens.front() != 0) refuse("must begin with 0");
  for (std::size_t i = 1; i < cu_seqlens.size(); ++i)
    if (cu_seqlens[i] <= cu_seqlens[i - 1])
      refuse(fmt::format("holds {} after {} and must rise", cu_seqlens[i], cu_seqlens[i - 1]));
  if (cu_seqlens.back() != T)
    refuse(fmt::format("ends with {}, not with the {} tokens", cu_seqlens.back(), T));
  std::vector<std::int64_t> reset(static_cast<std::size_t>(T));
  for (std::size_t i = 1; i + 1 < cu_seqlens.size(); ++i) reset[static_cast<std::size_t>(cu_seqlens[i])] = 1;
  return reset;
}

/// What an input is for: a row a token; a state from which a sequence goes on; one with which each document begins, where a memory
/// cannot begin without; or a parameter of all sequences.
enum class InputPart { tokens, start, each, shared };
inline InputPart part_of(const std::string& shape, bool optional) {
  return shape.rfind("[B,T", 0) == 0 ? InputPart::tokens
         : shape.rfind("[B", 0) != 0 ? InputPart::shared
         : optional                  ? InputPart::start
                                     : InputPart::each;
}

}  // namespace crosstalk
