// Facts that follow from a memory's declaration alone: dimension of its features, its own options, its description.
// SPDX-License-Identifier: Apache-2.0
#include "models/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "models/parts/parts.h"

namespace crosstalk {

const char* title_of(Family family) {
  switch (family) {
    case Family::keeps:
      return "keeps keys and values";
    case Family::adds:
      return "adds to a state";
    case Family::erases:
      return "erases what it replaces";
    case Family::own_law:
      return "other update rules";
  }
  return "";
}

std::int64_t Memory::d_dot(const Options& resolved) const {
  return keeps_keys ? 0 : heads_of(resolved) * head_d_dot(resolved);
}

std::vector<OptionSpec> Memory::own_options() const {
  std::vector<OptionSpec> own = options;
  std::erase_if(own, [&](const OptionSpec& option) {
    return option.name == "form" || std::any_of(parts.begin(), parts.end(), [&](const Part& part) {
             return std::any_of(part.options.begin(), part.options.end(),
                                [&](const OptionSpec& one) { return one.name == option.name; });
           });
  });
  return own;
}

std::string Memory::description() const {
  std::string from = source;  // "a variant of ..." stands as a sentence, a path as it is
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  if (std::all_of(from.begin(),
                  from.begin() + static_cast<std::ptrdiff_t>(std::min(from.find(' '), from.size())),
                  is_letter) &&
      !from.empty())
    from[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(from[0])));
  return fmt::format("{}{}. {}{}.", equation, laws.empty() ? "" : (law.empty() ? ", " : ", where ") + laws,
                     notes.empty() ? "" : notes + " ", from);
}

}  // namespace crosstalk
