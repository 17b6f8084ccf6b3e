// The part of a record that is known before training.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "experiments/study.h"
#include "results/record.h"

namespace crosstalk {

/// Identity, configuration, d_dot and state size of a run; losses are NaN.
Record record_of(const std::string& study, const Run& run, RunStatus status);

}  // namespace crosstalk
