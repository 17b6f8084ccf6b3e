// What became of a run's training, in one word: derived from its stop rule, its status and its curve of validation losses.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "results/store/record.h"

namespace crosstalk {

/// The first that applies, in this order:
enum class Verdict {
  failed,       ///< status failed: an error
  diverged,     ///< status diverged, or no finite loss at the end
  not_trained,  ///< train.max_steps = 0: a probe
  outrun,  ///< train.race ended it when a run that differs in its rates alone was solved (metric kOutrun)
  solved,  ///< the last evaluation meets train.stop_loss or train.stop_accuracy; of a language model with neither, an
           ///< accuracy of kSolvedAccuracy
  worse_than_nothing,  ///< a last validation loss more than kTrend above that of answering nothing (constant_loss, else
                       ///< chance_loss; of the latter only with an accuracy at chance)
  at_chance,  ///< would be a plateau or out_of_steps, and accuracy is within kChanceMargin of the way from chance to 1
  plateau,        ///< ended by train.patience; or at the last step with a loss that neither fell nor rose
  still_falling,  ///< ended at the last step while the loss fell
  rising,         ///< ended at the last step while the loss rose
  out_of_steps,   ///< ended at the last step with too few evaluations to tell (fewer than kLeastEvaluations)
  unknown,        ///< a row of somebody's table that says neither its steps nor a verdict
};
// Fell and rose: of the evaluations of the last stage of training, the median loss of the last quarter lies by more than
// kTrend below, or above, that of the quarter before it.
/// The metric of a run that is outrun: 1. It was trained as far as its race went, so that no choice and no figure takes it.
inline constexpr const char* kOutrun = "outrun";
bool is_outrun(const Record& record);
inline constexpr double kSolvedAccuracy = 0.99, kChanceMargin = 0.02, kTrend = 0.05;
inline constexpr int kLeastEvaluations = 8;

/// Of a record with its curves. Rows of a table (results/replay/import.h) keep the word that stands there; without one and
/// without a curve, the last step is reached by runs that are out_of_steps, or unknown where the table knows of no steps.
Verdict verdict_of(const Record& record);

/// Whether it says how long it was trained; rows of somebody's table may not.
bool knows_steps(const Record& record);

/// Keys of the configuration that verdict_of() reads.
const std::vector<std::string>& verdict_keys();

/// Whether verdict_of() looks at the curve of this record; false: its head, configuration and metrics suffice.
bool verdict_needs_curve(const Record& record);

/// "solved", "still_falling", ...: as exports write it.
std::string to_text(Verdict verdict);
/// All, in the order in which counts are shown.
const std::vector<Verdict>& verdicts();

/// Runs by verdict.
using VerdictCounts = std::map<Verdict, int>;

/// "solved", "still falling", ...: as people read it.
std::string words_of(Verdict verdict);
/// "3 solved", "2 still falling", in the order of verdicts().
std::vector<std::string> counted(const VerdictCounts& counts);

}  // namespace crosstalk
