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
  std::vector<Interval> by_task;    ///< scores
};
struct FreshResults {
  std::vector<std::string> tasks;  ///< of by_task: "recall", "reassign associations=14 (fresh)"
  std::vector<FreshResult> memories;
};
/// Of runs that were trained. Intervals are of 95 % after Bonferroni's correction for all laws that were tried.
FreshResults fresh_results(const SearchFile& file, const Search& search, const Study& study,
                           const Trials& trials);
/// "-4.12 [-4.30, -3.94]"
std::string spelt(const Interval& one, int digits);
/// A head, and a row a memory: its score on each task.
std::vector<std::vector<std::string>> by_task(const FreshResults& results);

/// The laws with equations and descent, and what they reach task by task, as Markdown.
std::string laws_text(const SearchFile& file, const Search& search, const std::vector<LabelledLaw>& laws,
                      const FreshResults& results);
/// All laws that were tried to the end, a row each.
std::string laws_csv(const Search& search);

}  // namespace crosstalk::search
