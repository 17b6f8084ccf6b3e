// SPDX-License-Identifier: Apache-2.0
#include "models/memories/registry.h"

#include <algorithm>

namespace crosstalk {

const std::vector<MemoryKind>& memory_kinds() {
  static const std::vector<MemoryKind> kinds = {softmax_memory(), linear_attention_memory(), delta_memory(),
                                                peng_gate_memory(), fwm_memory()};
  return kinds;
}

const MemoryKind* find_memory(const std::string& name) {
  const auto& kinds = memory_kinds();
  const auto it =
      std::find_if(kinds.begin(), kinds.end(), [&](const MemoryKind& kind) { return kind.name == name; });
  return it == kinds.end() ? nullptr : &*it;
}

}  // namespace crosstalk
