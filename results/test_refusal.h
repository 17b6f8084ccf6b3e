// What a call is refused with, for tests of messages.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

namespace crosstalk::testing {

/// The message of the error that `call` throws, `accepted` where it throws none.
template <class Error = std::invalid_argument, class Call>
std::string refusal_of(const Call& call, const std::string& accepted = "") {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return accepted;
}

}  // namespace crosstalk::testing
