// Which memories read the same whatever the order of the tokens: each says so beside its oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <set>
#include <string>

namespace crosstalk::checks {

inline std::set<std::string>& order_free() {
  static std::set<std::string> all;
  return all;
}
#define CROSSTALK_ORDER_FREE_MEMORY(name) \
  [[maybe_unused]] const bool order_free_##name = ::crosstalk::checks::order_free().insert(#name).second

}  // namespace crosstalk::checks
