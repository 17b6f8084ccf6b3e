// How runs are shared out among worker processes. SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "experiments/study.h"
#include "experiments/training.h"
#include "results/store.h"

namespace crosstalk::program {

/// What one process trains together: ids of runs with equal pack keys.
using Unit = std::vector<std::string>;
/// The units of one worker, longest first.
using Share = std::vector<Unit>;

/// Shares of about equal work, a pure function of its arguments. On a GPU runs that make one pack stay
/// together (there they are cheapest) unless that pack is more than an eighth of a worker's share: then each
/// worker gets about as many of them as any other.
std::vector<Share> share_out(const std::vector<Run>& runs, int workers, const TrainingOptions& options);

/// What all workers of one launch know.
struct WorkerPlan {
  std::string launch;   ///< tells this launch's records from earlier ones
  std::string command;  ///< as the user gave it
  std::vector<Share> shares;
};
std::string to_text(const WorkerPlan& plan);
/// Throws std::runtime_error.
WorkerPlan worker_plan(const std::string& text);

/// Whether a run needs no training any more: it has a result, or it failed in this launch.
bool is_recorded(const std::string& id, const StoreContents& contents, const std::string& launch);

/// What worker `i` trains next: the front of what is left of its own share, half of it or what keeps it busy
/// for a while; then, of the share of whom most is left, a part from the end, which its owner would begin
/// last. Empty: `recorded` holds for every run. `at_once`: packs that it trains side by side.
std::vector<std::string> next_round(const WorkerPlan& plan, std::size_t i, std::size_t at_once,
                                    const std::function<bool(const std::string& id)>& recorded);

}  // namespace crosstalk::program
