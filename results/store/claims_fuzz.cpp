// libFuzzer target of workers' files and names of claims: bash scripts/fuzz.sh claims.
// SPDX-License-Identifier: Apache-2.0
#include "results/store/claims_fuzz.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_claim_readers({reinterpret_cast<const char*>(data), size});
  return 0;
}
