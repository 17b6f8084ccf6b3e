// Records that an earlier version may have written wrongly, as far as a record shows it.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "results/numbers/select.h"

namespace crosstalk {

/// Records of later semantics are of versions in which these faults are mended.
inline constexpr int kLastSuspectSemantics = 4;

/// What may be wrong with a record, one sentence a fault (the same for all records that have it). Empty for one that does
/// not say its semantics.
std::vector<std::string> suspects(const Record& record);

/// "3 runs may be recorded wrongly: ...", one line a fault.
std::vector<std::string> suspects_text(const RecordList& records);

}  // namespace crosstalk
