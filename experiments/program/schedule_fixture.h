// A GPU that is simulated, and the packs of studies as they were measured on a real one.
//
// The GPU (share_device) knows two times of a pack's step: what the step takes of the device (work), and what it takes
// of the clock when the pack has the device for itself (alone), which is more wherever a step is a chain of small
// kernels. Packs get what they can use; where that is more than there is, by the priority of their streams: a level
// weighs kLevelWeight times the one below, as the hardware lets waiting blocks of urgent streams go first but never
// stops a running one.
//
// Both times come from the records (results/published/*.provenance.csv: when each run ended since its pack began, and
// its steps). `alone` is read from them: a pack of which few runs are left goes first, so that it ran at full speed.
// `work` is fitted: with it, packs that begin when they began end when they ended.
//
// Not in the model: starting a process, building a pack's model, memory, the host's cores, and that a replica's share
// of a step's work differs from memory to memory (kAlone).
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study.h"

namespace crosstalk::program {

inline constexpr double kNever = 1e18;

struct MeasuredPack {
  double begin = 0;                              ///< in seconds since its study began
  std::vector<std::pair<double, double>> ended;  ///< of each run: seconds since the pack began, steps
  std::pair<std::string, std::int64_t> size;     ///< its memory, and how long its sequences are
  double urgency = 0;                            ///< as it was trained
  double work = 0;                               ///< device seconds of a step of all replicas
  double most_work = kNever;                     ///< no step takes more of the device than of the clock
  std::array<double, 8> alone{};                 ///< seconds of a step of n replicas that have the device
  std::array<bool, 8> seen{};                    ///< whether alone[n] was, for n replicas or more
  std::size_t replicas() const { return ended.size(); }
};

struct PackInFlight {
  const MeasuredPack* measured = nullptr;
  std::vector<double> ends;  ///< steps of its runs, the fewest last
  std::size_t whole = 0;     ///< runs that it began with
  double urgency = 0;
  double done = 0;  ///< steps
  double speed = 0, weight = 0;
};

PackInFlight begin_pack(const MeasuredPack& measured, std::vector<double> steps, double urgency);
/// Gives each pack its speed, in steps a second, until one of them ends or begins.
void share_device(std::vector<PackInFlight>& packs);
/// Seconds until the next run ends; kNever without packs.
double next_end(const std::vector<PackInFlight>& packs);
void train(std::vector<PackInFlight>& packs, double seconds);

/// Studies with seeds 1 to 5, and what is known of their runs.
struct MeasuredSection {
  std::vector<Run> runs;
  std::map<std::string, double> steps;                 ///< by run
  std::map<std::string, const MeasuredPack*> pack_of;  ///< by run
  double misfit =
      0;  ///< of the study added last: by how much packs end earlier or later than they did, over what they took

  /// A study in experiments/, with its records in results/published/.
  void add(const std::string& name);

 private:
  std::map<std::string, MeasuredPack> packs_;  ///< by study and pack key
};

}  // namespace crosstalk::program
