// What a call is refused with, for tests of messages, and changed texts, for tests of readers.
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

/// Calls `check` with every beginning and every end of `text`, and with each of its bytes replaced by each of `bytes`.
template <class Check>
void check_mutations(std::string text, const std::string& bytes, const Check& check) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    check(text.substr(0, at));
    check(text.substr(at));
    const char was = text[at];
    for (const char byte : bytes) {
      text[at] = byte;
      check(text);
    }
    text[at] = was;
  }
}

}  // namespace crosstalk::testing
