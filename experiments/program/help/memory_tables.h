// Tables for pages, made from what memories and tasks declare: `crosstalk reference families`, `tasks`, `memories`, `comparable`, `apply`.
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
/// memory | what it starts with: map, norms, gates (docs/comparable.md).
std::string comparable_table();
/// memory | source and counted weights of its published layer | what agrees | what differs | what follows (docs/comparable.md).
std::string layers_table();
/// The same of map, norms and gates in plain text, for a terminal.
std::string comparable_text();
/// memory | inputs | equation | options | states (docs/apply.md).
std::string apply_table();

}  // namespace crosstalk::program
