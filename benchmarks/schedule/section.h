// A GPU that is simulated, and the packs of studies as they were measured on a real one.
//
// The GPU (share_device) knows two times of a pack's step: what the step takes of the device (work), and what it takes
// of the clock when the pack has the device for itself (alone), which is more wherever a step is a chain of small
// kernels. Packs get what they can use; where that is more than there is, by the priority of their streams: a level
// weighs kLevelWeight times the one below, as the hardware lets waiting blocks of urgent streams go first but never
// stops a running one.
//
// One H200, commit 99fb018: records.csv has when each run of both studies ended since its pack began, when that was
// since the program's start, and its steps (`crosstalk work` on one store, `crosstalk export --provenance`);
// steps.csv what a step takes alone, with 1 to 5 replicas (`crosstalk bench STUDY --replicas 1,2,5 --json`,
// us_per_model_step times replicas). `work` is fitted: with it, packs that begin when they began end when they ended.
//
// Not in the model: starting a process, building a pack's model, memory, and the host's cores.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/study/study.h"

namespace crosstalk::program {

inline constexpr double kNever = 1e18;
/// A GPU with little to train asks for runs of another, which reads that a moment later and trains on until the packs of what
/// it gives are evaluated: every kEvaluated steps, and it waits for no pack longer than kLongestWait from the first on. What
/// is given begins kMove after that, in seconds (traced on an H200, two processes: 0.16 to 0.57 from the question to the start
/// where no pack was waited for). Who was given nothing asks again.
inline constexpr double kRead = 0.1, kMoves[] = {0.15, 0.2, 0.25, 0.3, 0.35, 0.4}, kEvaluated = 100;

struct MeasuredPack {
  double begin = 0;                              ///< in seconds since the first pack began
  std::vector<std::pair<double, double>> ended;  ///< of each run: seconds since the pack began, steps
  std::pair<std::string, std::int64_t> size;     ///< its memory, and how long its sequences are
  double urgency = 0;                            ///< as it was trained
  double work = 0;                               ///< device seconds of a step of all replicas
  double most_work = kNever;                     ///< no step takes more of the device than of the clock
  std::array<double, 8> alone{};                 ///< seconds of a step of n replicas that have the device
  std::size_t replicas() const { return ended.size(); }
};

struct PackInFlight {
  const MeasuredPack* measured = nullptr;
  std::vector<double> ends;  ///< steps of its runs, the fewest last
  std::size_t whole = 0;     ///< runs that it began with
  double urgency = 0;
  double cost = 0;   ///< of a run, as it is estimated
  double began = 0;  ///< seconds
  double done = 0;   ///< steps
  double speed = 0, weight = 0;
  std::vector<std::pair<double, std::size_t>> leaving;  ///< of `ends`, to which GPU
  double leaves = 0;                                    ///< steps, when they do
};

PackInFlight begin_pack(const MeasuredPack& measured, std::vector<double> steps, double urgency);
/// Gives each pack its speed, in steps a second, until one of them ends or begins.
void share_device(std::vector<PackInFlight>& packs);
/// Seconds until the next run ends, or leaves at an evaluation; kNever without packs.
double next_end(const std::vector<PackInFlight>& packs);
void train(std::vector<PackInFlight>& packs, double seconds);

/// Both studies of 2021 with seeds 1 to 5, and what is known of their runs.
struct MeasuredSection {
  MeasuredSection();
  MeasuredSection(const MeasuredSection&) = delete;

  std::vector<Run> runs;
  std::map<std::string, double> steps;                 ///< by run
  std::map<std::string, const MeasuredPack*> pack_of;  ///< by run
  double misfit = 0;  ///< by how much packs end earlier or later than they did, over what they took

 private:
  std::map<std::string, MeasuredPack> packs_;  ///< by label and pack key
};

}  // namespace crosstalk::program
