// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <functional>

namespace emulate {
/// Does it, or adds it to the graph that this thread records.
void now_or_recorded(std::function<void()> step);
}  // namespace emulate
