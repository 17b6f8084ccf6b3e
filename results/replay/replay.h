// A replay beside the paper: our seeds of a published number, and whether the two agree as the paper's protocol
// warrants.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/numbers/select.h"
#include "results/replay/published.h"
#include "results/replay/replayed_study.h"
#include "results/store/record.h"

namespace crosstalk {

/// Loss at which a run counts as solved, and its training stops.
inline constexpr double published_solved = 0.001;

/// Where the published run is solved, ours must be; where it diverged, ours must; elsewhere
/// |ours - published| <= max(10 % of published, 0.01).
bool is_within(double ours, double published);

/// When a published number is met: what the column `agreement` of its file says.
///   "median within 0.02", "best within 0.02"    the median (the best) of our seeds is so near
///   "median within 0.02 or in range"            or it lies between our lowest and our highest seed
///   "in range"                                  it does
///   "each at least 0.99"                        every seed of ours is at least so good
///   "loss"                                      is_within() of the median
struct Agreement {
  enum class Of { nothing, median, best, each, loss } of = Of::nothing;
  double number = 0;
  bool in_range = false;

  /// Throws std::invalid_argument that says what it can be.
  static Agreement parse(const std::string& text);
  /// What is meant where a file says nothing: "loss", or for all else "median within 0.02 or in range".
  static Agreement usual(bool is_loss);
  /// Throws std::invalid_argument for a rule that is none of the number compared: "loss" of an accuracy, "each at least" of a loss.
  void check(bool is_loss) const;
};

/// Medians with the range of their seeds, as `plot` writes them beside a figure (label, ..., n, median, lo, hi).
struct FigurePoint {
  std::string label;
  int seeds = 0;
  double lowest = 0, median = 0, highest = 0;
  std::map<std::string, std::string> at = {};  ///< its other columns: length_factor, task.group, ...
};
/// Throws std::invalid_argument with path and line; also where an interval of confidence stands in place of the range.
std::vector<FigurePoint> read_figure(const std::filesystem::path& path);

/// What is compared with what.
struct ReplayOptions {
  std::vector<std::string> allowed = {};  ///< keys in which runs may differ from the published ones
  std::vector<std::string> best = {};     ///< keys of which the best value is taken, on the validation split
  BestBy best_by = BestBy::loss;
  std::vector<FigurePoint> figure = {};  ///< where runs have no profile by length, as those of exports
  std::vector<ReplayedStudy> studies =
      {};  ///< that runs are held against, as the head of the published file names them
};

/// Our runs of one published point.
struct Comparison {
  PublishedPoint published;
  std::size_t number = 0;                      ///< of the point in its file
  std::string metric;                          ///< eval_loss, or the column of the published file
  std::string read = {};                       ///< which number of ours stands beside it: "test_accuracy"
  double value = 0;                            ///< the published one
  bool is_loss = false;                        ///< smaller is better
  int seeds = 0;                               ///< runs that are done or diverged
  double lowest = 0, median = 0, highest = 0;  ///< over seeds; a diverged run has the worst there is
  double steps = 0;                            ///< median
  bool agrees = false;
  bool perfect_agrees = false;               ///< the same, if all our seeds were perfect
  std::optional<bool> guess_agrees = {};     ///< if all guessed; nothing where chance is not known
  std::string chosen = {};                   ///< "0.01": the best value of each key of `best`
  std::vector<std::string> deviations = {};  ///< of allowed keys: "train.batch (256, published 1024)"
  std::vector<EdgeChoice> edges = {};        ///< the best learning rate of `best` at an edge of its grid
  std::vector<Otherwise> otherwise =
      {};                          ///< than the study that replays the point, but for what `deviations` say
  bool trained_otherwise = false;  ///< of these some are not allowed: never `agrees`
  RecordList runs = {};            ///< that stand behind the numbers
};

/// The published points of which there are records, by setting and label in the order of the file. Numbers are pooled over seeds
/// alone. Throws std::invalid_argument for runs of one point that differ in another key, and for an agreement that cannot be read.
std::vector<Comparison> compare(const std::vector<PublishedPoint>& points,
                                const std::map<std::string, Record>& records,
                                const ReplayOptions& options = {});

/// Throws std::invalid_argument, which begins with --metric, where a point was measured by another number than `metric`.
void check_metric(const std::vector<PublishedPoint>& points, const std::string& metric);

/// How many of the points have no run here, and why, keys of options.allowed aside; `rows`: those that have.
std::vector<std::string> without_runs(const std::vector<PublishedPoint>& points,
                                      const std::map<std::string, Record>& records,
                                      const ReplayOptions& options, const std::vector<Comparison>& rows);

/// The comparison as a Markdown table, one row a point: published, lowest, median and highest of our seeds, agrees.
std::string comparison_table(const std::vector<Comparison>& rows);

/// What the agreement of these rows is worth: "a guessing model would pass 7 of 12, a perfect one 3"; and, where some points have
/// more seeds than most (added after a miss, say), how many of these agree.
std::string power_text(const std::vector<Comparison>& rows);

/// "The best learning rate is the largest tried for gla (2 of 3 points): a better one may lie beyond."; "" where it is nowhere.
std::string edges_of(const std::vector<Comparison>& rows);
/// "Not compared, for no run here has it: task.noise (0.4): 2 of 5 points.": keys of published points; "" if there are none.
std::string not_compared(const std::vector<Comparison>& rows);

/// What the runs of these rows do otherwise than the published ones, one line each with how many points it concerns.
std::vector<std::string> deviations_of(const std::vector<Comparison>& rows);

/// Where runs come from, of NAME.provenance.csv beside the export NAME.csv: "words.csv: 33 runs, commit 87d21a4, NVIDIA
/// H200, 118 s on 2026-11-24", the seconds from the first start to the last end, less the pauses of more than a minute in which
/// nothing trained (a store that was added to); one line for each commit and device. Empty where there is no such file.
/// Throws std::invalid_argument.
std::vector<std::string> provenance_of(const std::filesystem::path& export_path);

}  // namespace crosstalk
