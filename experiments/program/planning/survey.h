// What the records of a study or a store tell so far: verdicts of training, and learning rates that are best at the edge of
// their grid.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "experiments/common/stores.h"
#include "results/numbers/chance.h"
#include "results/numbers/verdict.h"
#include "results/store/store.h"

namespace crosstalk::program {

/// Of more runs than this, records are not read: counting them stays a matter of half a second.
inline constexpr std::size_t kMostRatedRuns = 20000;

struct StoreSurvey {
  VerdictCounts verdicts;                                       ///< a run under two labels counts once
  std::vector<std::pair<std::string, VerdictCounts>> by_label;  ///< by the alphabet
  /// How --best train.learning_rate would choose; labels of which no choice is at an edge are left out.
  std::vector<EdgeChoice> edges;
  std::vector<std::string> suspects;  ///< results/suspects.h
  ChanceCount chance;                 ///< of the runs of the study, or of the store
};
/// Of the store at `store`, whose heads were read: what `study` asks for, under its labels; without one, everything.
StoreSurvey survey(const Study* study, const std::filesystem::path& store, const StoreHeads& heads);
/// verdict_table() and, below it, the sentence on chance; "" where nothing is recorded.
std::string outcome_text(const StoreSurvey& survey);
/// The same in a line: "45 at chance, 9 solved. Chance: accuracy 0.0312; ...".
std::string outcome_line(const StoreSurvey& survey);
/// A table of labels and verdicts, of those that occur; "" where nothing is recorded.
std::string verdict_table(const StoreSurvey& survey);

}  // namespace crosstalk::program
