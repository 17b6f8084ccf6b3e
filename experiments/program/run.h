// Training the runs of a study, for `run` and `retry`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <utility>
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

/// The two steps of --rates-short, which `arguments` has: short runs of one seed into STORE-rates, and the study at the best values of
/// --best (rates and decays where it is not given) among them. Throws UsageError.
std::pair<Arguments, Arguments> two_steps_of(const Arguments& arguments);

}  // namespace crosstalk::program
