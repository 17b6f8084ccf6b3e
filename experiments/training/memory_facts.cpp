// What theory has to know of the registered memories.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/memory_facts.h"

#include "models/memory.h"
#include "models/rules/rule_memory.h"

namespace crosstalk {
namespace {

bool is_bounded_law(const Record& record) {
  Options options;
  for (const auto& [key, value] : record.config) {
    if (!key.starts_with("memory.")) continue;
    if (value.is_string()) options.set(key, value.get<std::string>());
    if (value.is_number_integer()) options.set(key, value.get<std::int64_t>());
    if (value.is_number_float()) options.set(key, value.get<double>());
  }
  try {
    return memory_of(options).bounded_by_rank;
  } catch (const std::exception&) {  // a law of a version that read others
    return false;
  }
}

}  // namespace

const MemoryFacts& memory_facts() {
  static const MemoryFacts facts = [] {
    MemoryFacts all;
    all.is_bounded_law = is_bounded_law;
    for (const Memory& memory : all_memories()) {
      if (memory.bounded_by_rank) all.bounded_by_rank.insert(memory.name);
      all.families[memory.name] = title_of(memory.family);
      if (memory.order_free) all.order_free.insert(memory.name);
    }
    return all;
  }();
  return facts;
}

}  // namespace crosstalk
