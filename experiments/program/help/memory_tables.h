// Tables for pages, made from what memories and tasks declare: `crosstalk reference families`, `tasks`, `memories`, `apply`.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace crosstalk::program {

/// Text for a cell of a Markdown table.
std::string cell(std::string text);

/// family | its memories, and task | what happens (README.md).
std::string families_table();
std::string tasks_table();
/// memory | what a token does, by family (docs/memories.md).
std::string memories_table();
/// memory | inputs | equation | options | states (docs/apply.md).
std::string apply_table();

}  // namespace crosstalk::program
