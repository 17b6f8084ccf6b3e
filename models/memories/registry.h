// One line a memory: declared here, listed in registry.cpp, defined in its own file.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "models/memory.h"

namespace crosstalk {

MemoryKind softmax_memory();
MemoryKind linear_attention_memory();
MemoryKind delta_memory();
MemoryKind peng_gate_memory();
MemoryKind fwm_memory();

}  // namespace crosstalk
