// How fast training is: what a step costs in theory, and how it is measured.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>

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

/// The run that bench trains: `seed`, `steps` steps, one evaluation of one sequence at the end, no early
/// stop.
Run bench_run(const Run& run, std::int64_t seed, std::int64_t steps);

/// Seconds of training alone. `seconds(n)` trains n steps and takes what it takes, preparation and evaluation
/// included; n and 2 n have those in common. n grows from 10 until the difference is long enough to be
/// trusted, unless `steps` fixes it: then it is the middle of three differences.
struct StepTime {
  std::int64_t steps = 0;
  double seconds = 0;
};
StepTime measure_steps(const std::function<double(std::int64_t)>& seconds, std::int64_t steps,
                       double long_enough);

}  // namespace crosstalk::program
