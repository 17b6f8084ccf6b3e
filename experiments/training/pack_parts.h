// Parts of a pack (pack.cpp): how many steps and sequences go together, how many threads, what a slot holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "experiments/study.h"
#include "experiments/training/evaluation.h"
#include "kernels/base/precision.h"
#include "results/record.h"
#include "results/theory.h"
#include "tasks/task.h"

namespace crosstalk {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int kSchlagQueries =
    schlag_max_queries;      // the released code evaluates at most so many queries a sequence
constexpr int kUnroll = 10;  // training steps in one captured graph, at most

/// Evaluation batches are cut so that one replica's read weights stay near 8 MB, whatever the load.
inline int evaluation_batch(int sequences, const SequenceShape& shape, int values) {
  const double row = static_cast<double>(shape.Q) * (shape.T + values);
  return std::clamp(static_cast<int>(2e6 / row), 1, sequences);
}

/// Steps in one replay: a divisor of the evaluation period and of the step limit.
inline int unrolled_steps(Device device, std::int64_t every, std::int64_t max_steps) {
  if (device == Device::cpu) return 1;
  const std::int64_t common = std::gcd(every, max_steps);
  for (int u = kUnroll; u > 1; --u) {
    if (common % u == 0) return u;
  }
  return 1;
}

/// Chooses between one thread and all that the scheduler offers by timing both now and then: small ops lose
/// more at barriers than they gain, above all on a machine that others use too. Results do not depend on the
/// choice.
class ThreadChooser {
 public:
  int choose(int offered) {
    ++chunk_;
    if (offered <= 1) return 1;
    const bool retry = chunk_ % 16 == 0;  // the other one's time may be out of date
    const bool one_wins = seconds_[0] <= seconds_[1];
    return (one_wins != retry) ? 1 : offered;
  }
  void measured(int threads, double seconds_a_step) { seconds_[threads > 1] = seconds_a_step; }

 private:
  int chunk_ = 0;
  double seconds_[2] = {0, 0};  ///< 0: not measured, so it is tried
};

/// What one replica has come to.
struct Slot {
  const Run* run = nullptr;  ///< nullptr: empty
  std::int64_t steps = 0, strikes = 0;
  double best = std::numeric_limits<double>::infinity();
  EvalSummary last{kNaN, kNaN, kNaN};
  std::map<std::string, Series> curves;
};

inline Precision products_of(const Options& config) {
  const std::string& precision = config.get_string("train.precision");
  return precision == "tf32" ? Precision::tf32 : precision == "bf16" ? Precision::bf16 : Precision::full;
}

}  // namespace crosstalk
