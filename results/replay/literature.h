// Published points that come with the program, as the text of their CSV file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace crosstalk {

/// results/published/literature/schlag2021_final_losses.csv
extern const char* const kLiterature;

}  // namespace crosstalk
