// libFuzzer target of task.segments, task.test_segments and task.curriculum: bash scripts/fuzz.sh segments.
// SPDX-License-Identifier: Apache-2.0
#include "tasks/segments_fuzz.h"

#include <cstddef>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_segments_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
