// Text for people and shells: tables, lists, durations, quoting.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/base/text/options.h"
#include "results/printable.h"

namespace crosstalk::program {

/// "a, b or c" for join({a,b,c}, ", ", " or "); an empty `last` means `separator`.
std::string join(const std::vector<std::string>& words, const std::string& separator,
                 const std::string& last = "");

/// Names of tasks, memories, figures, commands, ...
template <class Things>
std::vector<std::string> names_of(const Things& things) {
  std::vector<std::string> names;
  for (const auto& one : things)
    if constexpr (std::is_pointer_v<std::remove_cvref_t<decltype(one)>>)
      names.push_back(one->name);
    else
      names.push_back(one.name);
  return names;
}

/// "did you mean a?" of the nearest in quotes of this kind, or where none is near, "there are a, b and c".
std::string suggestion(const std::string& name, const std::vector<std::string>& names,
                       const char* quote = "");

/// Rows as aligned columns, two spaces apart; the first row is the head. Columns of numbers are set flush
/// right (decided by the body), the last column is not padded.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::string& indent = "");

/// Two columns, the second wrapped at `width` (its lines stay lines); a first word that is too long has a
/// line of its own.
std::string two_columns(const std::vector<std::vector<std::string>>& rows, std::size_t column,
                        std::size_t width);

/// Wraps paragraphs at `width`; lines that begin with a space (equations, lists) are left as they are.
std::string wrap(const std::string& text, std::size_t width, const std::string& indent = "");

/// "0.4 s", "41 s", "3 min 20 s", "2 h 5 min".
std::string duration(double seconds);

/// Words as a POSIX shell takes them; quoted only if they must be.
using crosstalk::shell_quote;
std::string shell_quote(const std::vector<std::string>& words);

/// "1 run", "2 runs".
std::string plural(std::int64_t count, const std::string& noun);

/// "64" or "64..512".
std::string span(std::int64_t min, std::int64_t max);

/// A value as a command line has it: text without quotes.
std::string unquoted(const OptionValue& value);
nlohmann::json to_json(const OptionValue& value);
/// Flat object: dotted key -> value.
nlohmann::json to_json(const Options& options);
/// Indented JSON with a newline; bytes that are not UTF-8 are replaced, never an exception.
std::string dump(const nlohmann::ordered_json& json);

}  // namespace crosstalk::program
