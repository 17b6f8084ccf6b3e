// What must hold of the reader of store.json for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <string>
#include <string_view>

#include "results/store/store.h"
#include "results/store/store_path.h"

namespace crosstalk {

/// Aborts where the reader breaks its promise: good, damaged, or refused with the path in front.
inline void check_mark_reader(std::string_view bytes) {
  try {
    if (mark_of(std::string(bytes), "s/store.json") == StoreMark::missing) std::abort();
  } catch (const StorePathError& error) {
    if (std::string_view(error.what()).substr(0, 14) != "s/store.json: ") std::abort();
  }
}

}  // namespace crosstalk
