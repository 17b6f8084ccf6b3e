// Lists of numbers in an option's text: "64:4:100000 128:8:20000" is a mixture, "32 64 128" a curriculum, "0 1; 1 0" a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace crosstalk {

/// One word of the text, its numbers in order.
struct NumberGroup {
  std::string text;
  std::vector<std::int64_t> numbers;
};

/// Words of `text` between blanks, each of `least` to `most` whole numbers from 1 to `largest` with ':' between. Throws
/// OptionError for `key`, whose words look like `example`.
std::vector<NumberGroup> number_groups(const std::string& key, const std::string& text, std::size_t least,
                                       std::size_t most, std::int64_t largest, const std::string& example);

/// Rows of whole numbers, with ';' between rows and blanks between numbers; at least one. Throws OptionError for `key`.
std::vector<std::vector<std::int64_t>> number_rows(const std::string& key, const std::string& text);

}  // namespace crosstalk
