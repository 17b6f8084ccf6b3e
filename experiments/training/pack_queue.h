// The packs that runs make, in the order in which they are trained.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/training/training.h"

namespace crosstalk {

/// Of a million runs that wait, no configuration is copied.
struct QueuedRun {
  const Run* run = nullptr;
  std::string state;  ///< as in PackRun
};

struct QueuedPack {
  double cost = 0;      ///< of all runs, as it is estimated
  double priority = 0;  ///< from 0 to kHighestPriority, by cost (scheduler.cpp)
  std::vector<QueuedRun> runs;
  int slots = 0;          ///< replicas at a time; 0: slots_of_a_pack()
  std::size_t bytes = 0;  ///< memory of the device that it needs; 0: not measured yet
  /// Last time that other programs left it too little memory.
  std::optional<std::chrono::steady_clock::time_point> crowded_out = std::nullopt;
};

/// Replicas of a pack at most, and runs that they train one after the other.
int slots_of_a_pack(const TrainingOptions& options);
int runs_of_a_pack(const TrainingOptions& options);

/// The runs of a pack, siblings of a race together.
std::vector<std::vector<QueuedRun>> races_of(const QueuedPack& pack);

/// Adds packs to the waiting ones, the longest last.
void add_packs(std::vector<QueuedPack>& waiting, std::vector<QueuedPack> packs);

/// The runs of a pack of several races in two, of half the replicas each.
std::pair<QueuedPack, QueuedPack> halves(const QueuedPack& pack, int slots);

/// Packs of at most runs_of_a_pack(), the longest last. Runs of one pack have equal keys and, where they go on from a
/// saved state, are in phase. Siblings of a race are in one pack, and begin anew if their states stand at different steps, or beyond
/// the end of their race. Empty if a stop cut it short.
std::vector<QueuedPack> make_packs(const std::vector<const Run*>& runs, const TrainingOptions& options,
                                   TrainingClient& client);

}  // namespace crosstalk
