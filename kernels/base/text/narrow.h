// Whole numbers in a smaller type: what does not fit is an error, never another number.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <limits>
#include <string>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/text/options.h"

namespace crosstalk {

/// `value` as a To. Throws OptionError for the option or count `name` where it does not fit.
template <std::integral To, std::integral From>
To narrow(From value, const std::string& name) {
  if (std::in_range<To>(value)) return static_cast<To>(value);
  throw OptionError(name, name + " = " + std::to_string(value) +
                              " is too large or too small; give a number from " +
                              std::to_string(std::numeric_limits<To>::min()) + " to " +
                              std::to_string(std::numeric_limits<To>::max()));
}

/// An option of type integer.
template <std::integral To>
To narrow(const Options& options, const std::string& key) {
  return narrow<To>(options.get_int(key), key);
}

}  // namespace crosstalk
