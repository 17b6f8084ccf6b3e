// An option that takes one of a few words.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "kernels/base/text/options.h"

namespace crosstalk {

inline OptionSpec choice(std::string name, std::string standard, std::string help,
                         std::vector<std::string> choices) {
  return {.name = std::move(name),
          .default_value = std::move(standard),
          .help = std::move(help),
          .choices = std::move(choices)};
}

}  // namespace crosstalk
