// Properties of the reader of model.init for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>

#include "models/graph/init_text.h"

namespace crosstalk {

/// Aborts where the reader breaks its promise: finite laws, or std::invalid_argument.
inline void check_init_reader(std::string_view bytes) {
  try {
    for (const auto& [name, init] : inits_of(std::string(bytes))) {
      if (!std::isfinite(init.low) || !std::isfinite(init.high)) std::abort();
      if (init.law == Init::Law::normal ? init.high < 0 : init.low > init.high) std::abort();
      // Four digits may round the lower end above the upper one, never into another law.
      try {
        if (Init::parse(init.text()).law != init.law) std::abort();
      } catch (const std::invalid_argument&) {
        if (std::abs(init.high - init.low) > 1e-3 * std::abs(init.high) && std::abs(init.high) < 1e300 &&
            std::abs(init.low) < 1e300)
          std::abort();
      }
    }
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace crosstalk
