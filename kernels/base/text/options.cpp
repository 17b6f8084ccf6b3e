// Options: defaults, checks and messages.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/base/text/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <stdexcept>
#include <type_traits>
#include <unordered_set>

#include "kernels/base/error.h"
#include "kernels/base/text/names.h"

namespace crosstalk {
namespace {

const char* type_name(const OptionValue& value) {
  static constexpr const char* names[] = {"true or false", "an integer", "a number", "a string"};
  return names[value.index()];
}

[[noreturn]] void wrong_type(const std::string& key, const char* want) {
  throw std::logic_error(fmt::format("[options] {} is not {}", key, want));
}

std::string bounds_text(const OptionSpec& spec) {
  const bool low = std::isfinite(spec.min), high = std::isfinite(spec.max);
  const char* lower = spec.min_exclusive ? "greater than" : "at least";
  if (low && high && !spec.min_exclusive)
    return fmt::format("between {:.15g} and {:.15g}", spec.min, spec.max);
  if (low && high) return fmt::format("greater than {:.15g} and at most {:.15g}", spec.min, spec.max);
  return low ? fmt::format("{} {:.15g}", lower, spec.min) : fmt::format("at most {:.15g}", spec.max);
}

/// The program's one copy of a text.
const std::string* once(const std::string& text) {
  static std::mutex mutex;
  static std::unordered_set<std::string> all;  // its strings stay where they are
  const std::lock_guard lock(mutex);
  return &*all.insert(text).first;
}

OptionValue whole(const std::variant<bool, std::int64_t, double, const std::string*>& stored) {
  return std::visit(
      [](const auto& x) -> OptionValue {
        if constexpr (std::is_pointer_v<std::decay_t<decltype(x)>>)
          return *x;
        else
          return x;
      },
      stored);
}

}  // namespace

std::string to_text(const OptionValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  return fmt::format("\"{}\"", std::get<std::string>(value));
}

const Options::Stored* Options::find(const std::string& key) const {
  const auto it = std::ranges::lower_bound(entries_, key, {},
                                           [](const Entry& e) -> const std::string& { return *e.key; });
  return it == entries_.end() || *it->key != key ? nullptr : &it->value;
}

const Options::Stored& Options::stored(const std::string& key) const {
  const Stored* value = find(key);
  if (!value)
    throw std::logic_error(
        fmt::format("[options] {} was never set: no option of this name is declared", key));
  return *value;
}

void Options::set(const std::string& key, const OptionValue& value) {
  const Stored to_store = std::visit(
      [](const auto& x) -> Stored {
        if constexpr (std::is_same_v<std::decay_t<decltype(x)>, std::string>)
          return once(x);
        else
          return x;
      },
      value);
  const auto it = std::ranges::lower_bound(entries_, key, {},
                                           [](const Entry& e) -> const std::string& { return *e.key; });
  if (it != entries_.end() && *it->key == key)
    it->value = to_store;
  else
    entries_.insert(it, {once(key), to_store});
}

OptionValue Options::at(const std::string& key) const { return whole(stored(key)); }

std::vector<std::pair<const std::string&, OptionValue>> Options::values() const {
  std::vector<std::pair<const std::string&, OptionValue>> all;
  all.reserve(entries_.size());
  for (const Entry& entry : entries_) all.emplace_back(*entry.key, whole(entry.value));
  return all;
}

bool Options::get_bool(const std::string& key) const {
  const auto* value = std::get_if<bool>(&stored(key));
  if (!value) wrong_type(key, "a bool");
  return *value;
}

std::int64_t Options::get_int(const std::string& key) const {
  const auto* value = std::get_if<std::int64_t>(&stored(key));
  if (!value) wrong_type(key, "an integer");
  return *value;
}

double Options::get_double(const std::string& key) const {
  const Stored& value = stored(key);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* number = std::get_if<double>(&value);
  if (!number) wrong_type(key, "a number");
  return *number;
}

const std::string& Options::get_string(const std::string& key) const {
  const auto* value = std::get_if<const std::string*>(&stored(key));
  if (!value) wrong_type(key, "a string");
  return **value;
}

void fill_defaults(Options& options, const std::string& prefix, const std::vector<OptionSpec>& specs) {
  for (const OptionSpec& spec : specs) {
    const std::string key = prefix + "." + spec.name;
    if (!options.has(key)) options.set(key, spec.default_value);
  }
}

OptionValue check_option(const OptionSpec& spec, const std::string& prefix, const OptionValue& value) {
  const std::string key = prefix.empty() ? spec.name : prefix + "." + spec.name;
  OptionValue result = value;
  if (std::holds_alternative<double>(spec.default_value) && std::holds_alternative<std::int64_t>(value))
    result = static_cast<double>(std::get<std::int64_t>(value));
  if (result.index() != spec.default_value.index()) {
    throw OptionError(key,
                      fmt::format("{} wants {}, got {}", key, type_name(spec.default_value), to_text(value)));
  }
  if (const auto* text = std::get_if<std::string>(&result); text && !spec.choices.empty()) {
    if (std::find(spec.choices.begin(), spec.choices.end(), *text) == spec.choices.end()) {
      const std::string near = nearest_name(*text, spec.choices);
      throw OptionError(key, fmt::format("{} = {} is not known{}; it can be {}", key, to_text(value),
                                         near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near),
                                         fmt::join(spec.choices, ", ")));
    }
  }
  if (result.index() == 1 || result.index() == 2) {
    const double number =
        result.index() == 1 ? static_cast<double>(std::get<std::int64_t>(result)) : std::get<double>(result);
    const bool above = spec.min_exclusive ? number > spec.min : number >= spec.min;
    if (!(above && number <= spec.max)) {
      throw OptionError(
          key, fmt::format("{} = {} is out of range; it must be {}", key, to_text(value), bounds_text(spec)));
    }
  }
  return result;
}

}  // namespace crosstalk
