// JSON that somebody else may have written: whole numbers, of which nlohmann's get() cuts 1e60 to 64 bits, which is undefined, and how
// deep it nests: the library copies, compares and prints values recursively, so that depth is stack.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

namespace crosstalk {

/// The integer that `value` is; nothing for 1.0, for what is no number, and for what does not fit into 64 bits.
inline std::optional<std::int64_t> integer_of(const nlohmann::json& value) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > largest))
    return std::nullopt;
  return value.get<std::int64_t>();
}

/// Far more than anything of ours has.
inline constexpr int max_json_depth = 64;

/// Whether lists and objects nest deeper than max_json_depth. For any bytes: what is not JSON is found deep
/// at the latest where a parser stops.
inline bool nests_deeply(std::string_view json) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > max_json_depth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace crosstalk
