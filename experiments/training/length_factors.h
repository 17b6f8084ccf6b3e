// Reads "1 2 4 8": at which lengths, and at which numbers of answers, a trained memory is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

namespace crosstalk {

/// Growing whole numbers of at least 1; empty text gives none. Throws OptionError("eval.length_factors",
/// ...).
std::vector<int> length_factors(const std::string& text);

/// The same of eval.prefixes.
std::vector<int> answer_prefixes(const std::string& text);

}  // namespace crosstalk
