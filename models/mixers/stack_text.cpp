// The text of model.stack.
// SPDX-License-Identifier: Apache-2.0
#include "models/mixers/stack_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <stdexcept>

#include "kernels/base/error.h"
#include "models/graph/init_text.h"
#include "models/memory.h"

namespace crosstalk {
namespace {

constexpr const char* kStack = "model.stack";

/// "base_conv memory(heads=2)" at its spaces outside of parentheses.
std::vector<std::string> words_of(const std::string& stack, std::size_t most) {
  std::vector<std::string> words(1);
  int depth = 0;
  for (const char c : stack) {
    depth += (c == '(') - (c == ')');
    if (depth < 0) break;
    const bool space = c == ' ' || c == '\t' || c == '\n';
    if (depth > 0 || !space) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
    if (words.size() > most && !words.back().empty())  // before anything is made of them
      throw OptionError(kStack, fmt::format("model.stack names more than {} layers", most));
  }
  if (depth != 0)
    throw OptionError(kStack, fmt::format("model.stack = \"{}\" has parentheses that do not match", stack));
  if (words.back().empty()) words.pop_back();
  if (words.empty())
    throw OptionError(kStack, "model.stack is empty; name at least one layer, for instance \"memory\"");
  return words;
}

StackEntry entry_of(const std::string& text) {
  const std::size_t open = text.find('(');
  StackEntry entry{text, text.substr(0, open), open != std::string::npos, {}};
  if (!entry.has_settings) return entry;
  if (text.back() != ')')
    throw OptionError(kStack,
                      fmt::format("model.stack: something stands behind the parentheses of '{}'", text));
  const std::string settings = text.substr(open + 1, text.size() - open - 2);
  std::set<std::string> given;
  for (std::size_t begin = 0; begin < settings.size();) {
    const std::size_t comma = std::min(settings.find(',', begin), settings.size());
    const std::string setting = trimmed(settings.substr(begin, comma - begin));
    begin = comma + 1;
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw OptionError(kStack, fmt::format("model.stack: '{}' in '{}' is no 'option=value'", setting, text));
    const std::string name = trimmed(setting.substr(0, equals));
    if (!given.insert(name).second)
      throw OptionError(kStack, fmt::format("model.stack: {} stands twice in '{}'", name, text));
    entry.settings.emplace_back(name, trimmed(setting.substr(equals + 1)));
  }
  return entry;
}

}  // namespace

std::vector<StackEntry> stack_entries(const std::string& stack, std::size_t most) {
  std::vector<StackEntry> entries;
  for (const std::string& word : words_of(stack, most)) entries.push_back(entry_of(word));
  return entries;
}

OptionValue stack_value(const OptionSpec& spec, const std::string& text) {
  const auto wrong = [&](const char* what) {
    return OptionError(kStack, fmt::format("model.stack: {} = {} is no {}", spec.name, text, what));
  };
  const char *begin = text.data(), *end = begin + text.size();
  if (std::holds_alternative<bool>(spec.default_value)) {
    if (text != "true" && text != "false") throw wrong("truth value; write true or false");
    return text == "true";
  }
  if (std::holds_alternative<std::int64_t>(spec.default_value)) {
    std::int64_t number = 0;
    const auto [at, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || at != end) throw wrong("whole number");
    return number;
  }
  if (std::holds_alternative<double>(spec.default_value)) {
    double number = 0;
    const auto [at, error] = std::from_chars(begin, end, number);
    if (error != std::errc() || at != end) throw wrong("number");
    return number;
  }
  return text;
}

std::vector<std::pair<std::string, OptionValue>> settings_in(const std::string& text,
                                                             const std::vector<OptionSpec>& own) {
  std::vector<std::pair<std::string, OptionValue>> all;
  for (const auto& [name, value] : entry_of("memory(" + text + ")").settings) {
    const bool of_memory = name.starts_with("memory.");
    const std::string key = of_memory ? name : "model." + name, option = key.substr(key.find('.') + 1);
    const std::vector<OptionSpec>& specs = of_memory ? own : model_options();
    const auto spec =
        std::find_if(specs.begin(), specs.end(), [&](const OptionSpec& one) { return one.name == option; });
    if (spec == specs.end()) throw std::logic_error(fmt::format("[settings] there is no option {}", key));
    all.emplace_back(key, stack_value(*spec, value));
  }
  return all;
}

}  // namespace crosstalk
