// A pack: runs of equal shapes, trained in lockstep as replicas of one model on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "experiments/training.h"

namespace crosstalk {

/// Runs whose configurations differ only in what leaves shapes alone (seeds, learning rate, stopping) have
/// equal keys.
std::string pack_key(const Options& config);

/// Estimated work of a run, in arbitrary units: for the order of packs (longest first).
double estimated_cost(const Run& run);

/// How a pack talks to its scheduler.
struct PackEvents {
  std::function<void(Record&&)> finished;
  std::function<void(std::int64_t steps)> progressed;
  std::function<bool()> stopped;  ///< leave now
  std::function<int()> threads;   ///< OpenMP threads to use until the next evaluation
};

/// Trains `runs` (equal pack keys). Returns false if it was stopped. Throws DeviceError when memory does not
/// suffice.
bool train_pack(const std::string& study, const std::vector<Run>& runs, const PackEvents& events);

}  // namespace crosstalk
