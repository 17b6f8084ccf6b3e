// libFuzzer program over the readers of all that users write or a store holds: bash scripts/fuzz.sh READER.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "experiments/common/request_fuzz.h"
#include "experiments/study/study_fuzz.h"
#include "experiments/training/state/run_state_fuzz.h"
#include "models/graph/init_fuzz.h"
#include "models/mixers/stack_fuzz.h"
#include "models/rules/recognise.h"
#include "results/readers_fuzz.h"
#include "tasks/segments_fuzz.h"

namespace crosstalk {
namespace {

/// Aborts where the reader of laws breaks its promise: a canonical text that is read as itself, or LawError with a place.
void check_law_reader(std::string_view bytes) {
  using namespace rules;
  try {
    const Accepted accepted = accept_law(steps_of(std::string(bytes)), {{"c", 1.5}});
    if (accept_law(steps_of(accepted.text), {{"c", 1.5}}).text != accepted.text) std::abort();
    recognise(*accepted.law);
  } catch (const LawError& error) {
    if (error.step < 1 || error.column < 1 || *error.what() == 0) std::abort();
  }
}

using Check = void (*)(std::string_view bytes);

constexpr struct {
  std::string_view name;
  Check check;
} kReaders[] = {{"study", check_study_reader},
                {"set", check_set_reader},
                {"record", check_record_reader},
                {"mark", check_mark_reader},
                {"state", check_state_reader},
                {"stack", check_stack_reader},
                {"init", check_init_reader},
                {"segments", check_segments_reader},
                {"rule", check_law_reader},
                {"published", check_published_reader},
                {"request", program::check_request_reader},
                {"claims", check_claim_readers}};

/// Of the reader that CROSSTALK_READER names: a variable, since libFuzzer starts copies of itself with its own arguments.
Check chosen() {
  const char* name = std::getenv("CROSSTALK_READER");
  for (const auto& reader : kReaders)
    if (name && reader.name == name) return reader.check;
  std::fprintf(stderr, "fuzz_any: CROSSTALK_READER is '%s'; it must be one of", name ? name : "");
  for (const auto& reader : kReaders) std::fprintf(stderr, " %s", reader.name.data());
  std::fprintf(stderr, "\n");
  std::exit(2);
}
Check check = nullptr;

}  // namespace
}  // namespace crosstalk

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  crosstalk::check = crosstalk::chosen();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  crosstalk::check({reinterpret_cast<const char*>(data), size});
  return 0;
}
