// libFuzzer target of the record reader. Build with clang and -DCROSSTALK_FUZZ=ON, run
// `results/record_fuzz -max_total_time=60 CORPUS`. SPDX-License-Identifier: Apache-2.0
#include "results/record_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_record_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
