// The end of a search: its best laws are trained afresh, by seeds and on tasks that it has not seen, beside built-in memories, and
// written down as text, as equations and with their descent.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "experiments/search/search.h"
#include "experiments/study/study.h"

namespace crosstalk::search {

/// The best laws of the front, as the study NAME_front names them: the best score first.
std::vector<LabelledLaw> finalists(const SearchFile& file, const Search& search);

/// A memory on fresh seeds, at the rate that is best on validation data.
struct FreshResult {
  std::string label;
  double rate = 0;
  Interval score;  ///< of the test split, as Search::score: 0 is nothing learned, lower is better
  std::optional<Interval> guessed;  ///< accuracy less chance
  std::optional<Interval> against;  ///< score less that of the best memory of [memories.LABEL], seed by seed
};
/// Of runs that were trained. Intervals are of 95 % after Bonferroni's correction for `tried` laws.
std::vector<FreshResult> fresh_results(const SearchFile& file, const Search& search, const Study& study,
                                       const Trials& trials, std::int64_t tried);

/// The laws with equations and descent, as Markdown.
std::string laws_text(const SearchFile& file, const Search& search, const std::vector<LabelledLaw>& laws);
/// All laws that were tried to the end, a row each.
std::string laws_csv(const Search& search);

}  // namespace crosstalk::search
