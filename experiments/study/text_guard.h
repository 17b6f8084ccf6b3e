// The guard of the TOML parser: text that a study may hold, in ASCII, and the error for all other.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <stdexcept>
#include <string>

namespace crosstalk {

/// A place in a file, counted from 1; line 0 = nowhere.
struct Position {
  int line = 0;
  int column = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

/// Text that is not TOML, or not TOML as a study may use it.
struct TomlError : std::runtime_error {
  TomlError(Position at_, const std::string& message) : std::runtime_error(message), at(at_) {}
  Position at;
};

/// `text` with the same lines and columns, but in ASCII: what parse_toml hands to toml++ (letters in comments
/// become '?', those in a title \u escapes). Throws TomlError for text that a study may not hold.
std::string guard_text(const std::string& text);

}  // namespace crosstalk
