// libFuzzer target of model.init: bash scripts/fuzz.sh init.
// SPDX-License-Identifier: Apache-2.0
#include "models/graph/init_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_init_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
