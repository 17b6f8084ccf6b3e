// Whether inputs of an op are different variables, which a form wants to know that writes their gradients in an order of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <iterator>

namespace crosstalk {

/// True if no two of these inputs (In) are one variable or views of one. An input that is absent is apart from all.
template <class... Inputs>
bool apart(const Inputs&... x) {
  const void* memory[] = {x.memory...};
  std::sort(std::begin(memory), std::end(memory));
  return std::adjacent_find(std::begin(memory), std::end(memory),
                            [](const void* a, const void* b) { return a && a == b; }) == std::end(memory);
}

}  // namespace crosstalk
