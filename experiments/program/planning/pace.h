// Time of one GPU (H100 or H200) for runs, before they are trained: milliseconds of each memory as benchmarks/memories.toml
// measured them (benchmarks/memories_h100.csv), and a law for other sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "experiments/study/study.h"

namespace crosstalk::program {

/// Mean size of the stages of a curriculum, as a share of the task's own size, where the schedule says how long each lasts; else 1.
double mean_size(const Options& config);

/// A run, and how many steps it takes.
struct PacedRun {
  const Run* run = nullptr;
  double steps = 0;
};

/// Seconds of one GPU that trains all of them, in the packs that `run` makes: whatever takes longer, the work of all packs side by
/// side or the packs that train longest alone. pace_test.cpp holds it against studies of results/published.
double gpu_seconds(const std::vector<PacedRun>& runs);

}  // namespace crosstalk::program
