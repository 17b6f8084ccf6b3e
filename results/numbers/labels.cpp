// Labels that would be misread.
// SPDX-License-Identifier: Apache-2.0
#include "results/numbers/labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "results/printable.h"

namespace crosstalk {

std::string misread_label(const std::string& label) {
  if (label.empty()) return "it is empty";
  // What pandas reads as "no value", in any case.
  static const std::set<std::string> missing = {"#n/a", "#n/a n/a", "#na",     "-1.#ind", "-1.#qnan",
                                                "-nan", "1.#ind",   "1.#qnan", "<na>",    "n/a",
                                                "na",   "nan",      "none",    "null"};
  std::string small = label;
  std::transform(small.begin(), small.end(), small.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (missing.count(small) != 0) return "pandas and R read it as a missing value; choose another";
  if (std::string_view("=+-@").find(label.front()) != std::string_view::npos)
    return fmt::format("a spreadsheet takes what begins with {} for a formula; choose another",
                       label.front());
  if (label.front() == ' ' || label.back() == ' ') return "it begins or ends with a space";
  for (const std::string_view word : {"theory", "published", "fit", "prefix-exact"}) {
    const std::string_view start = std::string_view(label).substr(0, label.find(':'));
    if (start.size() < label.size() && start == word)
      return fmt::format("what begins with \"{}:\" are rows of a figure's own; choose another", word);
  }
  return "";
}

std::string safe_label(const std::string& given) {
  const std::string label = printable_line(given);
  if (misread_label(label).empty()) return label;
  const std::size_t begin = std::min(label.find_first_not_of(' '), label.size());
  const std::size_t end = label.find_last_not_of(' ') + 1;
  return begin < end ? "label " + label.substr(begin, end - begin) : "label (none)";
}

}  // namespace crosstalk
