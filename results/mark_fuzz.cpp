// libFuzzer target of store.json: bash scripts/fuzz.sh mark.
// SPDX-License-Identifier: Apache-2.0
#include "results/mark_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_mark_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
