// libFuzzer target of requests (STORE/studies/NAME.request-HASH.json): bash scripts/fuzz.sh request.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/sharing/request_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::program::check_request_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
