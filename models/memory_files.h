// The memories as their files declare them, which the build collects (models/CMakeLists.txt); all_memories() completes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <vector>

#include "models/memory.h"

namespace crosstalk {

std::vector<Memory> memory_files();

}  // namespace crosstalk
