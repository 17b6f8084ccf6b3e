// Memory::law worked out number by number (models/rules/law_plain.h), for one sequence of one head.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/memory.h"
#include "models/rules/law_plain.h"
#include "models/testing/sequence.h"

namespace crosstalk::checks {

/// The law of a memory at these options, with inputs that are given, or made of weights by name.
rules::plain::Evaluator evaluated_law(const Memory& memory, const Options& options, double eps, bool given,
                                      const rules::plain::Sizes& sizes, const rules::plain::Given& numbers);
/// States at the end of what read_by_law() evaluated last.
inline std::map<std::string, Vector> law_states;
/// What the law reads at every token.
Matrix read_by_law(const Memory& memory, const Sequence& s);

}  // namespace crosstalk::checks
