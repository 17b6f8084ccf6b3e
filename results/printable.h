// Text of somebody else's for terminals, tables and pages: nothing in it acts.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace crosstalk {

/// `text` with control characters (also those of C1), marks that turn the direction of writing and bytes that
/// are not UTF-8 written as \u001b, which is JSON's way: JSON stays the same value. Newlines and tabs stay.
std::string printable(std::string_view text);

/// The same for text that must stay on one line: newlines and tabs as \u000a and \u0009.
std::string printable_line(std::string_view text);

/// A word as a POSIX shell takes it; quoted only if it must be.
std::string shell_quote(const std::string& word);

/// Bytes at the end of `text` that may be the beginning of a character that goes on elsewhere.
std::size_t cut_character(std::string_view text);

/// `text`, or its beginning and its end where it is longer than `most` bytes, and how much was left out.
std::string shortened(const std::string& text, std::size_t most = 4000);

}  // namespace crosstalk
