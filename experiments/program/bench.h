// How fast training is: what a step costs in theory, and how it is measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/training.h"

namespace crosstalk::program {

/// Floating-point operations of one training step of one model, by what its maths needs at least (a table of
/// keys, one read a query) and not by what any kernel does:
///
///   6 S e d + 6 B e d + c p B L Q,   c = 6 (reads that sum over what is stored), 14 (memories that solve)
///
/// S keys, e embedding, d key size, B batch, p = d_dot (d for softmax), L tokens and Q queries a sequence; a
/// second key adds another 6 S e d.
double step_flops(const Run& run);

/// The run that bench trains: `seed`, an evaluation of one sequence after every `every` steps, so many evaluations, no early stop.
Run bench_run(const Run& run, std::int64_t seed, std::int64_t every, std::int64_t evaluations);

/// What one training gives: streams that train side by side, and when each of their evaluations ended (seconds of one clock).
using Marks = std::vector<std::vector<double>>;

/// Seconds from an evaluation to the next: the median over all streams. What comes before the first one is preparation. Where some
/// streams have not begun or have ended, the others are faster: such intervals do not count unless there are no others. NaN without
/// an interval.
double typical_interval(const Marks& marks);

/// Seconds of training alone. `interval(n)` is the time of n steps and an evaluation; those of n and of 2 n have the evaluation in
/// common. n grows from 10 until the difference is `long_enough`, unless `steps` fixes it.
struct StepTime {
  std::int64_t steps = 0;
  double seconds = 0;
};
StepTime measure_steps(const std::function<double(std::int64_t)>& interval, std::int64_t steps,
                       double long_enough);

}  // namespace crosstalk::program
