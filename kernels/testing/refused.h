// What is refused and why, for tests.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "kernels/base/error.h"

namespace crosstalk::checks {

/// The option for which a call is refused and what is said of it, or "accepted".
struct Refused {
  std::string key = "accepted", why = "accepted";
  bool says(const std::string& part) const { return why.find(part) != std::string::npos; }
};
template <class Error = OptionError>
Refused refused(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    if constexpr (requires { error.key; }) return {error.key, error.what()};
    return {"", error.what()};
  }
  return {};
}

}  // namespace crosstalk::checks
