// The optimizer of a pack: Adam or AdamW with a schedule and clipping, each replica with its own learning rate and
// weight decay.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "experiments/training/epoch.h"
#include "experiments/training/replicas.h"
#include "kernels/optimizer/adam.h"

namespace crosstalk {

/// What becomes of the learning rate over the steps of a run. `epoch`: steps of one, where there are any.
RateSchedule schedule_of(const Options& config, std::int64_t epoch);

template <class Real>
class Optimizer {
 public:
  Optimizer(const Options& config, std::int64_t epoch, Replicas<Real>& replicas);

  /// Replica r trains a run with this configuration from now on.
  void begin(int r, const Options& config);

  /// Queues what follows the forward pass of a step whose loss is given: the step is counted.
  void count(const Exec& exec, const Tensor<Real>& loss);
  /// Queues what follows the backward pass.
  void update(const Exec& exec);
  /// Queues what follows the last step before anybody looks at reports.
  void close(const Exec& exec);

 private:
  Replicas<Real>& replicas_;
  int every_;
  double beta1_, beta2_, clip_norm_;
  bool decays_;
  RateSchedule schedule_;
  Arena arena_;
  Tensor<double> learning_rate_, weight_decay_, rate_, scale_;
  Tensor<double> squares_;  ///< [R,blocks] parts of the square of the gradient's norm, of the last step
};

}  // namespace crosstalk
