// SPDX-License-Identifier: Apache-2.0
#include "tasks/number_groups.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "kernels/base/error.h"

namespace crosstalk {
namespace {

/// Each becomes a task with graphs of its own.
constexpr std::size_t kMostGroups = 1000;

}  // namespace

std::vector<NumberGroup> number_groups(const std::string& key, const std::string& text, std::size_t least,
                                       std::size_t most, std::int64_t largest, const std::string& example) {
  std::vector<NumberGroup> groups;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const auto refuse = [&](const std::string& why) {
      return OptionError(key,
                         fmt::format("{} = \"{}\": {}; it wants words like {}", key, text, why, example));
    };
    if (groups.size() == kMostGroups)
      throw OptionError(
          key, fmt::format("{} names more than {} groups of numbers; at most so many are supported", key,
                           kMostGroups));
    NumberGroup group{word, {}};
    for (const char *at = word.data(), *end = at + word.size();; ++at) {
      std::int64_t number = 0;
      const auto [next, error] = std::from_chars(at, end, number);
      if (error != std::errc() || number < 1 || number > largest || (next != end && *next != ':'))
        throw refuse(fmt::format("\"{}\" is not made of whole numbers from 1 to {}", word, largest));
      group.numbers.push_back(number);
      at = next;
      if (at == end) break;
    }
    if (group.numbers.size() < least || group.numbers.size() > most)
      throw refuse(fmt::format("\"{}\" has {} numbers", word, group.numbers.size()));
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::vector<std::int64_t>> number_rows(const std::string& key, const std::string& text) {
  std::vector<std::vector<std::int64_t>> all;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row, ';');) {
    std::istringstream words(row);
    std::vector<std::int64_t> numbers;
    for (std::string word; words >> word;) {
      const char* end = word.data() + word.size();
      const auto [at, error] = std::from_chars(word.data(), end, numbers.emplace_back());
      if (error != std::errc() || at != end)
        throw OptionError(key, fmt::format("{}: \"{}\" in row {} is no whole number", key, word, all.size()));
    }
    if (!numbers.empty()) all.push_back(std::move(numbers));
  }
  if (all.empty())
    throw OptionError(key, fmt::format("{} is empty; give rows of numbers, as \"0 1; 1 0\"", key));
  return all;
}

}  // namespace crosstalk
