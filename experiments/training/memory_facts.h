// What theory (results/numbers/theory.h) has to know of the registered memories.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "results/numbers/theory.h"

namespace crosstalk {

const MemoryFacts& memory_facts();

}  // namespace crosstalk
