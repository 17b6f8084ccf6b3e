// The text of model.stack: which layers it names, with which settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/text/options.h"

namespace crosstalk {

/// "memory(heads=2, short_conv=qkv)".
struct StackEntry {
  std::string text, name;
  bool has_settings = false;  ///< parentheses, also empty ones
  std::vector<std::pair<std::string, std::string>> settings;
};

/// The entries of a stack of 1 to `most` layers. Throws OptionError for model.stack.
/// The most that model.layers can be.
inline constexpr std::size_t kMostLayers = 256;
std::vector<StackEntry> stack_entries(const std::string& stack, std::size_t most);

/// A setting's text as a value of the option's type. Throws OptionError for model.stack.
OptionValue stack_value(const OptionSpec& spec, const std::string& text);

/// "inner=true, memory.window=2" by their whole names: options of `own` behind "memory.", others of the model. Throws
/// std::logic_error of what is none.
std::vector<std::pair<std::string, OptionValue>> settings_in(const std::string& text,
                                                             const std::vector<OptionSpec>& own = {});

}  // namespace crosstalk
