// The studies that replay a file of published numbers, and what a run does otherwise than they.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "results/numbers/select.h"
#include "results/replay/published.h"
#include "results/store/record.h"

namespace crosstalk {

/// A study file, expanded: each of its runs without results, one seed.
struct ReplayedStudy {
  std::string path;          ///< as the published file names it: "experiments/mad.toml"
  std::string name;          ///< study.name
  std::vector<Record> runs;  ///< label and config
  /// The default of an option of a task, of a memory or of neither, which is what a record older than the option was trained with; none:
  /// unknown, or made of other options.
  std::function<std::optional<std::string>(const std::string& task, const std::string& memory,
                                           const std::string& key)>
      default_of = {};
};

/// A key in which a run differs from the study.
struct Otherwise {
  std::string study, key, ours, theirs;
  friend auto operator<=>(const Otherwise&, const Otherwise&) = default;
};

/// In what `record` differs from the run of the studies that is nearest to it, seeds and what is read beside the test
/// (eval.length_factors, eval.piece) aside. Only studies that the head of the point's file names count; of these that under whose
/// name the record was trained, else all. Nearest: equal label first, then most of what is known of the point, then fewest keys.
/// `any_load`: the load and what follows from it may differ. A key that the record lacks has its default; one that
/// the study lacks cannot differ.
std::vector<Otherwise> otherwise_than(const Record& record, const PublishedPoint& point,
                                      const std::vector<ReplayedStudy>& studies, bool any_load = false);

/// "Otherwise than experiments/mad.toml: train.max_steps 20 (20000), model.width 32 (128): 3 of 12 points", a sentence for each
/// study, of what each of `of` points does otherwise.
std::vector<std::string> otherwise_text(const std::vector<std::vector<Otherwise>>& points,
                                        const char* what = "points");

/// "Trained: 20 steps of 128 sequences, width 32, 12800 sequences over and over; read on 640."; "" where nothing is known.
std::string trained_text(const RecordList& runs);

}  // namespace crosstalk
