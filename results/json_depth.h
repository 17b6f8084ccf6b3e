// How deep JSON nests: the library copies, compares and prints values recursively, so that depth is stack.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace crosstalk {

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
