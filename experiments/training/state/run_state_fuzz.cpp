// libFuzzer target of saved states (checkpoints): bash scripts/fuzz.sh state.
// SPDX-License-Identifier: Apache-2.0
#include "experiments/training/state/run_state_fuzz.h"

#include <cstddef>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check_state_reader({reinterpret_cast<const char*>(data), size});
  return 0;
}
