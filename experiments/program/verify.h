// Records trained again: from a record back to its run, and how far two records agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "experiments/study/study.h"
#include "results/store/record.h"

namespace crosstalk::program {

/// The run that a record is of. Throws std::runtime_error or OptionError where this program cannot train it,
/// or where its configuration does not have the record's id.
Run run_of(const Record& record);
/// The same whatever its id: records of other semantics resolve as this program would.
Run resolved_run(const Record& record);

/// not_trained: a PyTorch model, and there is no Python for it.
enum class Agreement { identical, within_tolerance, differs, not_trained };

/// `exact`: nothing but equal bits will do. Else final and best losses may differ by the share `tolerance`,
/// or absolutely by a fifth of it; how the runs ended may not.
Agreement compare(const Record& recorded, const Record& again, bool exact, double tolerance);

}  // namespace crosstalk::program
