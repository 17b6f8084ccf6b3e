// What theory has to know of the registered memories.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/memory_facts.h"

#include "models/memory.h"

namespace crosstalk {

const MemoryFacts& memory_facts() {
  static const MemoryFacts facts = [] {
    MemoryFacts all;
    for (const Memory& memory : all_memories()) {
      if (memory.bounded_by_rank) all.bounded_by_rank.insert(memory.name);
      if (memory.order_free) all.order_free.insert(memory.name);
    }
    return all;
  }();
  return facts;
}

}  // namespace crosstalk
