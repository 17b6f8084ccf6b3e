// The memories as their files declare them, which the build collects (models/CMakeLists.txt); all_memories() completes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "models/memory.h"

namespace crosstalk {

/// With the names of their files, which are theirs.
std::vector<std::pair<std::string, Memory>> memory_files();
/// Adds to what a file says: options of parts and of forms.
Memory completed(Memory memory);

}  // namespace crosstalk
