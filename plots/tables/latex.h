// Text of figures and tables as LaTeX. Titles, labels and names of columns come from studies and tables of anybody: what
// LaTeX would take for an order is escaped or refused.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace crosstalk {

/// Mathtext (words, and formulas between $) as LaTeX. As matplotlib has it, an odd number of $ are dollars, as is \$.
/// Throws std::invalid_argument for a formula with anything but letters, digits, signs, braces in pairs and commands of
/// formulas.
std::string latex_of(const std::string& mathtext);

/// What a text of latex_of() needs besides \usepackage{booktabs}: ",amssymb" or "".
std::string packages_of(const std::string& latex);

/// Text that holds no formula, as mathtext.
std::string mathtext_of(const std::string& plain);

}  // namespace crosstalk
