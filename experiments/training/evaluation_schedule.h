// Which runs of a pack may train in lockstep.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <numeric>

#include "experiments/training/epoch.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

/// Steps of evaluation of a run. Runs in lockstep have equal numbers of steps to the next evaluation, to the next segment,
/// and to the last step where that is no multiple of eval.every.
class EvaluationSchedule {
 public:
  EvaluationSchedule(const Options& config, const Epoch& epoch)
      : every_(config.get_int("eval.every")),
        last_(config.get_int("train.max_steps")),
        period_(std::lcm(every_, epoch.parts().size() > 1 ? epoch.steps() : 1)) {}

  /// Equal for runs that may train in lockstep, of which this one has done `steps`.
  std::int64_t phase(std::int64_t steps) const { return last_ % every_ == 0 ? steps % period_ : steps; }

  /// Steps from `steps` to the next evaluation.
  std::int64_t to_evaluation(std::int64_t steps) const {
    return std::min(every_ - steps % every_, last_ - steps);
  }

 private:
  std::int64_t every_, last_, period_;
};

}  // namespace crosstalk
