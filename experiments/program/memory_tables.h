// Tables of memories for pages, made from what their files declare: `crosstalk reference memories`, `reference apply`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace crosstalk::program {

/// Text for a cell of a Markdown table.
std::string cell(std::string text);

/// memory | what a token does, by family (README.md).
std::string memories_table();
/// memory | inputs | equation | options | states (docs/apply.md).
std::string apply_table();

}  // namespace crosstalk::program
