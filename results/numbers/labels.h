// Labels that would be taken for something else where results are read.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace crosstalk {

/// Why such a label would be misread (by pandas, by a spreadsheet, among the rows of a figure's own); "" if it would
/// not. A study cannot have one.
std::string misread_label(const std::string& label);

/// The label of a record that comes from elsewhere: a misread one is kept apart ("label =1+1"), control characters are
/// spelled out (printable_line).
std::string safe_label(const std::string& given);

}  // namespace crosstalk
