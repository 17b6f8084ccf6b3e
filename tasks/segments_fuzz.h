// What must hold of the reader of mixtures and curricula for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "kernels/base/error.h"
#include "tasks/number_groups.h"

namespace crosstalk {

/// Aborts where the reader breaks its promise: groups of numbers within their bounds, or OptionError for the key.
inline void check_segments_reader(std::string_view bytes) {
  struct Form {
    std::size_t least, most;
    std::int64_t largest;
  };
  for (const auto& [least, most, largest] :
       {Form{1, 1, 1 << 20}, Form{2, 3, std::int64_t{1} << 24}, Form{3, 3, std::int64_t{1} << 40}}) {
    try {
      for (const NumberGroup& group :
           number_groups("task.segments", std::string(bytes), least, most, largest, "64:4:100000")) {
        if (group.numbers.size() < least || group.numbers.size() > most) std::abort();
        for (const std::int64_t number : group.numbers)
          if (number < 1 || number > largest) std::abort();
      }
    } catch (const OptionError& error) {
      if (error.key != "task.segments" || std::string_view(error.what()).substr(0, 13) != "task.segments")
        std::abort();
    }
  }
}

}  // namespace crosstalk
