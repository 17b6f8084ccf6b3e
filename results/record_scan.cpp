// Walks over the text of a record's line.
// SPDX-License-Identifier: Apache-2.0
#include "results/record_scan.h"

namespace crosstalk {
namespace {

/// Behind the closing quote of the string that opens at `at`; any bytes will do, the end of the text ends it.
std::size_t end_of_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size(); ++at) {
    if (text[at] == '"') return at + 1;
    if (text[at] == '\\') ++at;
  }
  return text.size();
}

/// Behind the object or list that opens at `at`; `at` itself if none does.
std::size_t end_of_value(std::string_view text, std::size_t at) {
  if (at >= text.size() || (text[at] != '{' && text[at] != '[')) return at;
  for (int depth = 0; at < text.size();) {
    const char c = text[at];
    if (c == '"') {
      at = end_of_string(text, at);
      continue;
    }
    ++at;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth == 0) break;
  }
  return at;
}

/// Calls member(depth, key, at) for every member of an object, `at` being where its value begins, and goes on where
/// that returns.
template <class Member>
void walk(std::string_view line, const Member& member) {
  int depth = 0;
  for (std::size_t at = 0; at < line.size();) {
    const char c = line[at];
    if (c != '"') {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++at;
      continue;
    }
    const std::size_t end = end_of_string(line, at);
    if (end < line.size() && line[end] == ':')
      at = member(depth, line.substr(at + 1, end - at - 2), end + 1);
    else
      at = end;
  }
}

}  // namespace

RecordKeys keys_of_line(std::string_view line) {
  RecordKeys keys;
  std::vector<std::string_view>* section = nullptr;
  walk(line, [&](int depth, std::string_view key, std::size_t at) {
    if (depth == 1) {
      section = key == "config"       ? &keys.config
                : key == "metrics"    ? &keys.metrics
                : key == "provenance" ? &keys.provenance
                                      : nullptr;
      return section == nullptr ? end_of_value(line, at) : at;
    }
    if (depth == 2 && section != nullptr) section->push_back(key);
    return end_of_value(line, at);
  });
  return keys;
}

std::string without_series(std::string_view line, bool provenance) {
  std::string out;
  std::size_t copied = 0;
  walk(line, [&](int depth, std::string_view key, std::size_t at) {
    if (depth != 1) return at;
    const std::size_t end = end_of_value(line, at);
    const bool unwanted = key == "curves" || key == "profiles" || (key == "provenance" && !provenance);
    if (!unwanted || at >= line.size() || line[at] != '{') return end;
    out.append(line.substr(copied, at - copied)).append("{}");
    copied = end;
    return end;
  });
  return out.append(line.substr(copied));
}

}  // namespace crosstalk
