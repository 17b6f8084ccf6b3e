// libFuzzer target of laws: bash scripts/fuzz.sh rule.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "models/rules/recognise.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace crosstalk::rules;
  const std::vector<std::string> steps = steps_of(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const Accepted accepted = accept_law(steps, {{"c", 1.5}});
    if (accept_law(steps_of(accepted.text), {{"c", 1.5}}).text != accepted.text) std::abort();
    recognise(*accepted.law);
  } catch (const LawError& error) {
    if (error.step < 1 || error.column < 1 || *error.what() == 0) std::abort();
  }
  return 0;
}
