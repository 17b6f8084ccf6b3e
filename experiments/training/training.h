// Trains packs of runs: the program's view of the trainer.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <atomic>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "kernels/base/exec.h"
#include "kernels/base/parallel.h"
#include "kernels/base/text/options.h"
#include "results/store/record.h"

namespace crosstalk {

/// Options under "train." and "eval.".
const std::vector<OptionSpec>& train_options();
const std::vector<OptionSpec>& eval_options();
/// Cross-checks (a length factor that is not a number, ...). Throws OptionError.
void resolve_training(Options& options);

/// CUDA, unless TrainingOptions says otherwise: packs at a time, so that graphs of small kernels fill the GPU
/// together; replicas of one pack; runs that a slot of a pack trains one after the other, at most.
inline constexpr int default_streams = 32, default_replicas = 64, refills = 8;

struct TrainingOptions {
  int threads = 0;  ///< CPU: 0 = all cores that this process may use
  int pack = 0;     ///< replicas a pack at most; 0 = chosen by the scheduler
  Device device = Device::cpu;
  int cuda_device = 0;  ///< which of cuda_device_count()
  int concurrency = 0;  ///< CUDA: packs at a time, each on its own stream; 0 = chosen by the scheduler
};

/// Packs that train_runs trains side by side, if there are so many.
inline int packs_at_once(const TrainingOptions& options) {
  if (options.device == Device::cuda) return options.concurrency > 0 ? options.concurrency : default_streams;
  return options.threads > 0 ? options.threads : available_cores();
}

/// What the trainer tells while it works. Called from worker threads, one call at a time.
struct TrainingEvents {
  std::function<void(Record&&)> finished;  ///< a run ended (done, diverged or failed)
  /// The final weights of a run with keep_weights that is done, as .npz; called before `finished`. May be
  /// empty.
  std::function<void(const std::string& id, const std::string& npz)> keep;
  std::function<void(std::int64_t steps)> progressed;  ///< model-steps done since the last call
  const std::atomic<bool>* stop =
      nullptr;  ///< set: leave as soon as possible; unfinished runs are saved, if `save` is given
  /// Keeps the whole state of a run that was stopped; a later call of train_runs continues it bit for bit.
  std::function<void(const std::string& id, const std::string& state)> save;
  /// The state kept for a run, or "" if there is none.
  std::function<std::string(const std::string& id)> load;
  /// The state that `load` gave is none, or cannot be this run's: the run is trained anew. May be empty.
  std::function<void(const std::string& id, const std::string& why)> reject;
  /// A run does not fit beside what other programs hold of the device, and waits until it does. Called once a run. Empty: such a
  /// run fails.
  std::function<void(const std::string& id, const std::string& why)> waits;
  /// Asked before a run begins and at each of its evaluations, by several threads at once: whether to train
  /// it here. If not (somebody else does, or has), it is left without a word. Empty: yes.
  std::function<bool(const std::string& id)> wanted;
  /// Asked now and then, by one thread at a time, while fewer packs train than could side by side: what else there is
  /// to train, without the runs that are `here` already. Empty: nothing.
  std::function<std::vector<const Run*>(const std::set<std::string>& here)> more;
  /// Asked before a pack begins while others wait, every so many seconds at most: what another process had begun and
  /// left (it was killed, say).
  /// Such runs take their place among those that wait, the longest first. Empty: nothing.
  std::function<std::vector<const Run*>(const std::set<std::string>& here)> freed;
  double freed_every = 5;  ///< 0: before every pack
};

/// Trains `runs` (any mix of shapes), and what `more` gives. Returns true if all that are wanted ended, false if it was stopped.
/// Equal runs give equal records whatever the pack, the order and the number of threads.
bool train_runs(const std::string& study, const std::vector<const Run*>& runs, const TrainingOptions& options,
                const TrainingEvents& events);

inline bool train_runs(const std::string& study, const std::vector<Run>& runs, const TrainingOptions& options,
                       const TrainingEvents& events) {
  std::vector<const Run*> all;
  for (const Run& run : runs) all.push_back(&run);
  return train_runs(study, all, options, events);
}

}  // namespace crosstalk
