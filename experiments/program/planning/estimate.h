// How long a study takes before anything of it is recorded: a few of its shapes are trained for two seconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "experiments/sharing/forecast.h"
#include "experiments/training/training.h"

namespace crosstalk::program {

/// On the CPU: the smallest and the largest shape of each memory are trained side by side on all cores, as long as
/// `budget` seconds last; others follow by their arithmetic. On a GPU, which a try of two seconds says nothing about:
/// by what the arithmetic of recorded studies took, where there are such.
TimeForecast estimate_time(const std::vector<const Run*>& runs, const TrainingOptions& training,
                           double budget = 2);

}  // namespace crosstalk::program
