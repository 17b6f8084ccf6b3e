// Training on one task: the graphs of its segments, and the steps through them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/training/device_loop.h"
#include "experiments/training/epoch.h"
#include "experiments/training/optimizer.h"
#include "experiments/training/replicas.h"

namespace crosstalk {

template <class Real>
class TrainingSteps {
 public:
  /// The task must outlive it.
  TrainingSteps(const Options& config, const Task& task, Replicas<Real>& replicas);

  const Epoch& epoch() const { return epoch_; }
  /// Replica r trains a run with this configuration from now on.
  void begin(int r, const Options& config) { optimizer_.begin(r, config); }

  /// Queues `steps` steps of the active replicas, which stand at step `from` (or at the same place of an epoch).
  /// Returns false if it left in between because of `stopped`, which is told how many were queued.
  bool advance(const std::vector<int>& active, std::int64_t from, std::int64_t steps,
               const std::function<bool(std::int64_t queued)>& stopped);

  /// What the lanes of replica r hold after the last step, as bytes; none of a task without lanes.
  std::string carried(int r) const;
  /// Throws std::runtime_error where `bytes` are not carried().
  void restore_carried(int r, const std::string& bytes);

  /// Whether there is no step to train, and so no graph: train.max_steps = 0.
  bool is_empty() const { return parts_.empty(); }
  /// The forms that the graphs have taken (provenance); not of an empty training.
  std::string forms() const;

 private:
  struct Part {
    std::shared_ptr<ModelGraph<Real>> graph;  ///< parts of one shape share it
    std::unique_ptr<Replay> one, many;        ///< a step, and unroll_ of them
  };
  bool take_steps(const Exec& exec, std::int64_t from, std::int64_t steps,
                  const std::function<bool(std::int64_t queued)>& stopped);
  void queue(const Exec& exec, std::size_t part, int steps);
  void stay_near();
  void clear_gradients(const Exec& exec);

  Replicas<Real>& replicas_;
  Epoch epoch_;
  int batch_, unroll_;
  Optimizer<Real> optimizer_;
  std::vector<Part> parts_;
  std::shared_ptr<PieceGraphs<Real>>
      lanes_;  ///< the graphs of both parts; absent where the task has no lanes
  std::unique_ptr<DrawScratch> scratch_;
  Arena arena_;
  int ahead_ = 0,
      most_ahead_ = 1;  ///< replays queued since the host last waited for the GPU, and how many may be
  std::chrono::steady_clock::time_point near_ = std::chrono::steady_clock::now();
  Tensor<std::int32_t> number_;  ///< [R,1] of the next batch of a part; absent where that is the step
};

/// Steps in one replay: where it can be, a divisor of the evaluation period and of the step limit.
int unrolled_steps(Device device, const Options& config, const Epoch& epoch);

}  // namespace crosstalk
