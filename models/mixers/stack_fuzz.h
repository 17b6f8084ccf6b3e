// Properties of the reader of model.stack for any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "kernels/base/error.h"
#include "models/mixers/stack_text.h"

namespace crosstalk {

/// Aborts where the reader breaks its promise: 1 to 8 entries, no option twice in one, values of their options' types; or
/// OptionError for model.stack.
inline void check_stack_reader(std::string_view bytes) {
  const OptionSpec specs[] = {{"heads", 1, ""}, {"scale", 1.0, ""}, {"bias", false, ""}, {"map", "", ""}};
  try {
    const std::vector<StackEntry> entries = stack_entries(std::string(bytes), 8);
    if (entries.empty() || entries.size() > 8) std::abort();
    for (const StackEntry& entry : entries) {
      if (entry.text.empty() || entry.text.rfind(entry.name, 0) != 0) std::abort();
      std::set<std::string> names;
      for (const auto& [name, text] : entry.settings) {
        if (!entry.has_settings || !names.insert(name).second) std::abort();
        for (const OptionSpec& spec : specs) {
          try {
            if (stack_value(spec, text).index() != spec.default_value.index()) std::abort();
          } catch (const OptionError& error) {
            if (error.key != "model.stack") std::abort();
          }
        }
      }
    }
  } catch (const OptionError& error) {
    if (error.key != "model.stack") std::abort();
  }
}

}  // namespace crosstalk
