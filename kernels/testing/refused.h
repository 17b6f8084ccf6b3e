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
template <class Call>
Refused refused(const Call& call) {
  try {
    call();
  } catch (const OptionError& error) {
    return {error.key, error.what()};
  }
  return {};
}

}  // namespace crosstalk::checks
