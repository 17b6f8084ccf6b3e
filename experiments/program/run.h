// Training the runs of a study, for `run` and `retry`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "experiments/common/command.h"

namespace crosstalk::program {

/// Which of a study's runs are trained.
enum class Which {
  missing,  ///< no record, or none that counts
  failed    ///< the last record says failed
};

/// Options of `run` and `retry` beside the study's.
std::vector<CommandOption> training_options();

/// Trains, records, reports. Returns an exit code.
int train_study(const Arguments& arguments, Which which, Console& console);

}  // namespace crosstalk::program
