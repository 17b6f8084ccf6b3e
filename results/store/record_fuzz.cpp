// libFuzzer target of the readers of records and shards: bash scripts/fuzz.sh record.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/record_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_record_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
