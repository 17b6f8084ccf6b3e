// The part of a record that is known before training, and what a slot adds.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "experiments/study/study.h"
#include "experiments/training/slot.h"
#include "results/store/record.h"

namespace crosstalk {

/// Identity, configuration, d_dot and state size of a run; losses are NaN.
Record record_of(const std::string& study, const Run& run, RunStatus status);
/// The same with steps, losses and learning curves of its slot.
Record record_of(const std::string& study, const Slot& slot, RunStatus status);

}  // namespace crosstalk
