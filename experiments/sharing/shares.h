// How runs are shared out among worker processes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/training.h"
#include "results/store/follow.h"

namespace crosstalk::program {

/// Runs that one process trains together: ids of runs with equal pack keys.
using Unit = std::vector<std::string>;
/// The units of one worker, longest first.
using Share = std::vector<Unit>;

/// Shares of about equal work, a pure function of its arguments. On a GPU runs that make one pack stay
/// together (there they are cheapest) unless that pack is more than a quarter of a worker's share: then it is
/// cut into as few parts as are not.
std::vector<Share> share_out(const std::vector<Run>& runs, int workers, const TrainingOptions& options);

/// Plan that all workers of one launch know.
struct WorkerPlan {
  std::string command;          ///< as the user gave it
  ShardPositions since;         ///< SessionOptions::since
  std::int64_t black_hole = 0;  ///< SessionOptions::black_hole
  std::vector<Share> shares;
};
std::string plan_text(const WorkerPlan& plan);
/// Throws std::runtime_error.
WorkerPlan worker_plan(const std::string& text);

/// Runs that worker `i` trains next: the front of the rest of its own share, half of it or some packs for each of the
/// `at_once` side by side; then, of the share with the largest rest, a part from the end, which its owner would begin last.
/// Empty: `taken` (recorded, or claimed by another) holds for every run.
std::vector<std::string> next_round(const std::vector<Share>& shares, std::size_t i, std::size_t at_once,
                                    const std::function<bool(const std::string& id)>& taken);

}  // namespace crosstalk::program
