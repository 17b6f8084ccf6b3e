// libFuzzer target of CSV files of published results: bash scripts/fuzz.sh published.
// SPDX-License-Identifier: Apache-2.0
#include "results/replay/published_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_published_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
