// Whole numbers of JSON that somebody else may have written: nlohmann's get() cuts 1e60 to 64 bits, which is undefined.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace crosstalk {

/// The integer that `value` is; nothing for 1.0, for what is no number, and for what does not fit into 64 bits.
inline std::optional<std::int64_t> integer_of(const nlohmann::json& value) {
  constexpr auto largest = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > largest))
    return std::nullopt;
  return value.get<std::int64_t>();
}

}  // namespace crosstalk
