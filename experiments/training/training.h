// Trains packs of runs: the program's view of the trainer.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/race.h"
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

class Task;
/// The task that a configuration names.
using TaskMaker = std::function<std::unique_ptr<Task>(const Options& config)>;
std::unique_ptr<Task> registered_task(const Options& config);

struct TrainingOptions {
  int threads = 0;  ///< CPU: 0 = all cores that this process may use
  int pack = 0;     ///< replicas a pack at most; 0 = chosen by the scheduler
  Device device = Device::cpu;
  int cuda_device = 0;       ///< which of cuda_device_count()
  int concurrency = 0;       ///< CUDA: packs at a time, each on its own stream; 0 = chosen by the scheduler
  double look_again = 5;     ///< seconds between looks for more runs while packs wait; 0: before every pack
  TaskMaker make_task = {};  ///< empty: registered_task
};

/// Packs that train_runs trains side by side, at most.
inline int packs_at_once(const TrainingOptions& options) {
  if (options.device == Device::cuda) return options.concurrency > 0 ? options.concurrency : default_streams;
  return options.threads > 0 ? options.threads : available_cores();
}

/// Where a run stands.
struct RunPlace {
  const Run* run = nullptr;
  std::int64_t steps = 0;
};
/// A point of a run's learning curves; NaN where there is none.
struct RunPoint {
  std::int64_t step = 0;
  double eval_loss = 0, eval_accuracy = 0, train_loss = 0;
};

/// The caller of train_runs: names the runs to train, and keeps their states and records. Called from the threads that train.
class TrainingClient {
 public:
  virtual ~TrainingClient() = default;

  // Questions, from several threads at once:
  /// Whether to leave as soon as possible; unfinished runs are saved.
  virtual bool stopped() const { return false; }
  /// Before a run begins and at each of its evaluations: whether it is trained here. Else (another process trains it, or has
  /// recorded it) it is left without a report.
  virtual bool claim(const std::string& /*id*/) { return true; }
  /// The step at which a sibling of the race (race_of) was solved, of all records so far; asked when its runs are claimed.
  virtual std::int64_t solved_at(const std::string& /*race*/) { return kNeverSolved; }
  /// At an evaluation that does not end a run: whether it rests there. Its state is saved, it is left without a report, and goes
  /// on from there, bit for bit, when it is trained again.
  virtual bool rests(const Run& /*run*/, std::int64_t /*steps*/) { return false; }
  /// More runs, none of those that are `here`; by one thread at a time. `idle`: fewer packs train than could side by side,
  /// and any free run will do. Else others wait, and only runs that another process had begun and left are due (it was
  /// killed, say): they take their place among those that wait, the longest first.
  virtual std::vector<const Run*> more_runs(const std::set<std::string>& /*here*/, bool /*idle*/) {
    return {};
  }

  // States of unfinished runs, from which train_runs continues them bit for bit:
  /// "": none.
  virtual std::string saved_state(const std::string& /*id*/) { return ""; }
  virtual void save_state(const std::string& /*id*/, const std::string& /*state*/) {}
  /// The saved state is not this run's: the run begins anew.
  virtual void reject_state(const std::string& /*id*/, const std::string& /*why*/) {}

  // Reports, one at a time. An exception ends the training, and train_runs throws it:
  virtual void progressed(std::int64_t /*steps*/) {}  ///< model-steps done since the last call
  /// Where runs of a pack stand, a few times a second, also between two evaluations; on a GPU up to half a second ahead.
  virtual void advanced(const std::vector<RunPlace>& /*runs*/) {}
  /// A run after an evaluation that does not end it.
  virtual void evaluated(const Run& /*run*/, const RunPoint& /*point*/) {}
  /// The run has to wait for memory held by other programs; once a run. Returns false if it shall fail instead.
  virtual bool waits_for_memory(const std::string& /*id*/, const std::string& /*why*/) { return false; }
  /// Final weights of a run with keep_weights that is done, as .npz; before finished(). Those on the way under "ID@STEP".
  virtual void keep_weights(const std::string& /*id*/, const std::string& /*npz*/) {}
  virtual void finished(Record&&) = 0;  ///< done, diverged or failed
};

/// Trains `runs` (any mix of shapes), and the client's more_runs(). Returns true if all claimed runs ended or rest, false if it was
/// stopped. Equal runs give equal records whatever the pack, the order and the number of threads.
bool train_runs(const std::string& study, const std::vector<const Run*>& runs, const TrainingOptions& options,
                TrainingClient& client);

inline bool train_runs(const std::string& study, const std::vector<Run>& runs, const TrainingOptions& options,
                       TrainingClient& client) {
  std::vector<const Run*> all;
  for (const Run& run : runs) all.push_back(&run);
  return train_runs(study, all, options, client);
}

}  // namespace crosstalk
