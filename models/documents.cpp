// SPDX-License-Identifier: Apache-2.0
#include "models/documents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>

namespace crosstalk {

Documents documents_of(const std::vector<std::int64_t>& reset, int B, int T, bool starts) {
  const auto at = [&](int b, int t) { return static_cast<std::size_t>(b) * T + static_cast<std::size_t>(t); };
  for (std::size_t i = 0; i < reset.size(); ++i)
    if (reset[i] != 0 && reset[i] != 1)
      throw std::invalid_argument(fmt::format(
          "reset holds {} at [{},{}]; it is 1 where a document begins and 0 elsewhere, for example numbers[:, 1:] != numbers[:, :-1] "
          "of the documents' numbers, with a first column of 1",
          reset[i], i / static_cast<std::size_t>(T), i % static_cast<std::size_t>(T)));
  std::map<std::pair<int, bool>, std::vector<std::pair<std::int64_t, int>>>
      found;  // rows, and of which sequence they are the last
  for (int b = 0; b < B; ++b)
    for (int t = 0, end = 0; t < T; t = end) {
      end = t + 1;
      while (end < T && reset[at(b, end)] == 0) ++end;
      found[{end - t, starts && t == 0 && reset[at(b, 0)] == 0}].emplace_back(at(b, t), end == T ? b : -1);
    }
  Documents documents{B, T, {}, std::vector<std::int64_t>(static_cast<std::size_t>(B))};
  std::int64_t number = 0;
  for (const auto& [kind, rows] : found) {
    DocumentGroup& group = documents.groups.emplace_back(DocumentGroup{kind.first, kind.second, {}});
    for (const auto& [row, last_of] : rows) {
      group.first.push_back(row);
      if (last_of >= 0) documents.last[static_cast<std::size_t>(last_of)] = number;
      ++number;
    }
  }
  return documents;
}

std::vector<std::int64_t> reset_of(const std::vector<std::int64_t>& cu_seqlens, int B, int T) {
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

}  // namespace crosstalk
