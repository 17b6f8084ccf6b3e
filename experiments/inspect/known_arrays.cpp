// SPDX-License-Identifier: Apache-2.0
#include "experiments/inspect/known_arrays.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "experiments/inspect/inspect.h"

namespace crosstalk {

extern const char* const kArraysText;  ///< arrays.txt, which the build makes a source of

namespace {

const char* shape_of(Per per) {
  switch (per) {
    case Per::token:
      return "[T,H,1]";
    case Per::key:
      return "[T,H,K]";
    case Per::value:
      return "[.,H,V]";  // a token's or a query's
    case Per::write:
      return "[M,H,1]";
    case Per::head:
      return "[1,H,1]";
    case Per::head_key:
      return "[1,H,K]";
    default:
      return "[.,H,.]";
  }
}

/// Arrays of the task, which asks Q times in any model.
bool of_task(const std::string& name) {
  return name.starts_with("query") || name == "answer" || name == "output";
}

ArrayMeaning plain_meaning(const std::string& name, const Memory& memory, bool language) {
  for (const MemoryInput& input : memory.inputs)
    if (input.name == name) return {shape_of(input.per), fmt::format("input {} of {}", name, memory.name)};
  for (const KnownArray& known : known_arrays()) {
    if (name != known.name) continue;
    return {language && !known.shape_in_language.empty() ? known.shape_in_language : known.shape,
            language && !known.meaning_in_language.empty() ? known.meaning_in_language : known.meaning};
  }
  if (name.starts_with("token.")) return {"[T,H,n]", "projection of the token, before its nonlinearity"};
  if (name.starts_with("state_")) return {"[P,H,.,.]", fmt::format("the state {}", name.substr(6))};
  return {"[.,H,.]", "made by the memory on its way"};
}

}  // namespace

const std::vector<KnownArray>& known_arrays() {
  static const std::vector<KnownArray> all = [] {
    std::vector<KnownArray> read;
    std::istringstream lines(kArraysText);
    for (std::string line; std::getline(lines, line);) {
      KnownArray& array = read.emplace_back();
      for (std::string* part : {&array.name, &array.shape, &array.meaning, &array.meaning_in_language,
                                &array.shape_in_language}) {
        const std::size_t end = std::min(line.find(" | "), line.size());
        *part = line.substr(0, end);
        line.erase(0, end + 3);
      }
    }
    return read;
  }();
  return all;
}

ArrayMeaning meaning_of(const std::string& name, const Memory& memory, bool language) {
  ArrayMeaning found = plain_meaning(name, memory, language);
  if (language && !of_task(name)) std::ranges::replace(found.shape, 'Q', 'T');
  return found;
}

bool is_vector(const std::string& name) {
  static const std::set<std::string> vectors = {
      "k", "q", "v", "phi_k", "phi_q", "a", "b", "retrieved", "score_query", "erase_read", "erase_write"};
  return vectors.count(name) != 0 || name.find("key") != std::string::npos || name.starts_with("token.");
}

std::string inspect_reference() {
  std::string text;
  for (const KnownArray& known : known_arrays())
    text += fmt::format("  {:<18} {:<15} {}\n", known.name, known.shape, known.meaning);
  return text;
}

}  // namespace crosstalk
