// libFuzzer target of model.stack: bash scripts/fuzz.sh stack.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/stack_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_stack_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
